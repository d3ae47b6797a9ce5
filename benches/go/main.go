// The loads of the report that Go can do, as a process that takes its turns when it is told to.
// benches/src/report/order.rs and child.rs describe what the process is told and what it answers; the loads
// are those of benches/src/loads.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Each runs so many operations.
var loads = map[string]func(int){
	"chained_spawn":     chainedSpawn,
	"ping_pong":         pingPong,
	"spawn_many":        spawnMany,
	"spawn_many_worker": spawnMany,
	"spawn_await":       spawnAwait,
	"yield_many":        yieldMany,
	"mpsc_ping":         mpscPing,
	"mpsc_stream":       mpscStream,
}

func main() {
	words := strings.Split(os.Getenv("BENCH_CONTESTANT"), ";")
	if len(words) != 4 {
		fail("BENCH_CONTESTANT must be four words")
	}
	load, workers, operations := words[1], number(words[2]), number(words[3])
	runtime.GOMAXPROCS(workers)

	var turn func(kind string, amount int) string
	if strings.HasPrefix(load, "tcp_echo") {
		turn = echo(operations)
	} else if run, ok := loads[load]; ok {
		turn = func(kind string, amount int) string { return iterate(run, operations, kind, amount) }
	} else {
		fail("no contestant can do " + load)
	}

	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		fmt.Println(turn(words[0], number(words[1])))
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "go:", message)
	os.Exit(1)
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		fail(err.Error())
	}
	return value
}

type usage struct {
	cpu    float64
	sleeps int64
}

func used() usage {
	var now syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &now); err != nil {
		fail(err.Error())
	}
	return usage{float64(now.Utime.Nano() + now.Stime.Nano()), now.Nvcsw}
}

// "for" so many milliseconds, or so many "times".
func iterate(run func(int), operations int, kind string, amount int) string {
	before, start := used(), time.Now()
	var times []float64
	for {
		begin := time.Now()
		run(operations)
		times = append(times, float64(time.Since(begin))/float64(operations))
		if kind == "times" && len(times) >= amount {
			break
		}
		if kind == "for" && time.Since(start) >= time.Duration(amount)*time.Millisecond {
			break
		}
	}
	after, done := used(), float64(len(times)*operations)
	sort.Float64s(times)
	middle := (times[(len(times)-1)/2] + times[len(times)/2]) / 2
	cpu, sleeps := (after.cpu-before.cpu)/done, float64(after.sleeps-before.sleeps)*1000/done
	return fmt.Sprintf("best=%f time=%f cpu=%f sleeps=%f", times[0], middle, cpu, sleeps)
}

func chainedSpawn(depth int) {
	done := make(chan struct{})
	var link func(left int)
	link = func(left int) {
		if left == 0 {
			close(done)
		} else {
			go link(left - 1)
		}
	}
	go link(depth)
	<-done
}

func pingPong(pairs int) {
	done := make(chan struct{})
	left := int64(pairs)
	go func() {
		for i := 0; i < pairs; i++ {
			go func() {
				ping, pong := make(chan struct{}, 1), make(chan struct{}, 1)
				go func() {
					<-ping
					pong <- struct{}{}
				}()
				ping <- struct{}{}
				<-pong
				if atomic.AddInt64(&left, -1) == 0 {
					close(done)
				}
			}()
		}
	}()
	<-done
}

func spawnMany(tasks int) {
	done := make(chan struct{})
	left := int64(tasks)
	for i := 0; i < tasks; i++ {
		go func() {
			if atomic.AddInt64(&left, -1) == 0 {
				close(done)
			}
		}()
	}
	<-done
}

func spawnAwait(tasks int) {
	for i := 0; i < tasks; i++ {
		done := make(chan struct{})
		go close(done)
		<-done
	}
}

func yieldMany(yields int) {
	const tasks = 200
	var all sync.WaitGroup
	all.Add(tasks)
	for i := 0; i < tasks; i++ {
		go func() {
			for i := 0; i < yields/tasks; i++ {
				runtime.Gosched()
			}
			all.Done()
		}()
	}
	all.Wait()
}

func mpscPing(rounds int) {
	ping, pong := make(chan int, 1), make(chan int, 1)
	go func() {
		for i := 0; i < rounds; i++ {
			pong <- <-ping
		}
	}()
	for i := 0; i < rounds; i++ {
		ping <- i
		<-pong
	}
}

func mpscStream(messages int) {
	stream := make(chan int, 128)
	go func() {
		for i := 0; i < messages; i++ {
			stream <- i
		}
	}()
	for i := 0; i < messages; i++ {
		<-stream
	}
}

// A server of this process, and the client of the report against it.
func echo(connections int) func(kind string, amount int) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err.Error())
	}
	go func() {
		for {
			stream, err := listener.Accept()
			if err != nil {
				fail(err.Error())
			}
			// Go sets TCP_NODELAY by itself.
			go func() {
				defer stream.Close()
				buffer := make([]byte, 1024)
				for {
					length, err := stream.Read(buffer)
					if err != nil {
						return
					}
					if _, err := stream.Write(buffer[:length]); err != nil {
						return
					}
				}
			}()
		}
	}()

	return func(_ string, amount int) string {
		before := used()
		client := exec.Command(os.Getenv("BENCH_PROGRAM"))
		order := fmt.Sprintf("BENCH_CLIENT=tcp:%s echo %d %d", listener.Addr(), connections, amount)
		client.Env = append(os.Environ(), order)
		client.Stderr = os.Stderr
		text, err := client.Output()
		if err != nil {
			fail(err.Error())
		}
		var rate, requests, p50, p99, p999 float64
		if _, err := fmt.Sscan(string(text), &rate, &requests, &p50, &p99, &p999); err != nil {
			fail(err.Error())
		}
		cpu := (used().cpu - before.cpu) / requests
		return fmt.Sprintf("best=%f time=%f rate=%f p50=%f p99=%f p999=%f cpu=%f", 1e9/rate, 1e9/rate, rate, p50, p99, p999, cpu)
	}
}
