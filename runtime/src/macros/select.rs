//! `select!`: waits for the first of several branches.
//!
//! A round polls the branches in a circle, and begins with a random branch. A branch is disabled if its
//! precondition is false, or if its output did not match its pattern. Its bit is then set in `disabled`, and
//! it is not polled again.
//!
//! # How a pattern is tried
//! The future that polls must know whether an output matches. But the bindings belong to the handler, which
//! runs later, when all futures are gone. So the pattern is matched twice. The first match has a guard that
//! notes the match and refuses it. Bindings move only when a guard accepts, so the output stays whole
//! whatever the pattern binds. The output leaves the poll as the variant of an enum. (An `Option` per branch
//! outside of the poll would need no enum, but would live across the wait. So every output would have to be
//! `Send` for the task to be `Send`.)

/// Waits for the first of several futures to be ready, and drops the others.
///
/// A program describes branches:
/// ```text
/// select! {
///     <pattern> = <future> => <handler>,
///     <pattern> = <future>, if <precondition> => <handler>,
///     else => <expression>,
/// }
/// ```
/// There are at most 64 branches. `else` comes last and may be missing. The comma after a handler in braces
/// may be missing, too. A future is an expression of type [`IntoFuture`](std::future::IntoFuture). `select!`
/// must be used where `.await` can be. Its value is that of the handler, so all handlers and `else` have one
/// type.
///
/// What happens, in this order:
///
/// 1. All preconditions are evaluated. A branch whose precondition is false is *disabled*.
/// 2. All future expressions are evaluated. The futures of disabled branches are never polled.
/// 3. The enabled branches are polled, in the calling task: concurrently, but not in parallel.
/// 4. When a future is ready, its output is matched against the pattern. If it matches, all futures are
///    dropped, in no particular order, the handler runs, and `select!` is done. If it does not match, the
///    output is dropped, this branch is disabled, and the others go on.
/// 5. When no branch is left, `else` is evaluated.
///
/// Handlers are plain code of the surrounding function. They may use `?`, `return`, `break`, `continue` and
/// `.await`. All futures are gone when a handler runs. So the handler may also use what they had borrowed,
/// even mutably, and two handlers may change the same variable.
///
/// # Fairness
/// Each poll begins with a random branch, so a branch that is always ready does not starve the others when
/// `select!` is used in a loop. With `biased;` in front, every poll goes from top to bottom. This is a little
/// cheaper, and right when the order matters. Fairness is then up to the program: put the rare event (a
/// shutdown signal) above the frequent one (a busy queue).
///
/// A task that has used up its [budget](crate::task::coop) yields before any branch is polled, even if the
/// futures know no budget.
///
/// # Panics
/// If every branch is disabled and there is no `else`.
///
/// # Cancel safety
/// Each round drops the futures that lost. In a loop that is right for futures that can be dropped and made
/// again without a loss, such as receiving from a channel, accepting a connection, or one call of `read`.
/// Every async function of this crate says this under *Cancel safety*. A future that keeps its progress in
/// itself (`read_exact`, `write_all`, an `async fn` with more than one `.await`) would begin anew in each
/// round. Make such a future before the loop, [`pin!`](crate::pin) it, and give `select!` a `&mut` to it.
///
/// # Examples
/// The first one wins:
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// async fn answer() -> u32 {
///     runtime::task::yield_now().await;
///     42
/// }
///
/// let n = runtime::select! {
///     n = answer() => n,
///     _ = std::future::pending::<()>() => unreachable!("it is never ready"),
/// };
/// assert_eq!(n, 42);
/// # });
/// ```
/// A limit for a whole loop. The sleep is made once and goes on from round to round.
/// ```
/// use std::time::Duration;
///
/// # runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let limit = runtime::time::sleep(Duration::from_millis(20));
/// runtime::pin!(limit);
///
/// let mut rounds = 0;
/// loop {
///     runtime::select! {
///         _ = &mut limit => break,
///         _ = runtime::time::sleep(Duration::from_millis(1)) => rounds += 1,
///     }
/// }
/// assert!(rounds > 0);
/// # });
/// ```
/// Patterns that may not match, and `else`: the loop ends when both channels are closed.
/// ```
/// use runtime::sync::mpsc;
///
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let (words_in, mut words) = mpsc::channel(8);
/// let (numbers_in, mut numbers) = mpsc::channel(8);
/// words_in.send("one").await.unwrap();
/// numbers_in.send(1).await.unwrap();
/// drop((words_in, numbers_in));
///
/// let mut seen = Vec::new();
/// loop {
///     runtime::select! {
///         Some(word) = words.recv() => seen.push(word.to_string()),
///         Some(number) = numbers.recv() => seen.push(number.to_string()),
///         else => break,
///     }
/// }
/// seen.sort();
/// assert_eq!(seen, ["1", "one"]);
/// # });
/// ```
/// Preconditions. A future must not be polled again once it was ready, so its branch is switched off.
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// runtime::pin! {
///     let left = async { "left" };
///     let right = async { "right" };
/// }
/// let (mut from_left, mut from_right) = (None, None);
///
/// while from_left.is_none() || from_right.is_none() {
///     runtime::select! {
///         word = &mut left, if from_left.is_none() => from_left = Some(word),
///         word = &mut right, if from_right.is_none() => from_right = Some(word),
///     }
/// }
/// assert_eq!((from_left, from_right), (Some("left"), Some("right")));
/// # });
/// ```
/// A precondition is evaluated once a round, before the futures are polled. So `if !sleep.is_elapsed()` would
/// be a mistake: if the time runs out between the check of the loop and this one, the branch is disabled and
/// never runs. Test variables that the handlers set, as above.
///
/// From top to bottom, so that nothing is done after the request to stop:
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let stop = async {};
/// let was_stopped = runtime::select! {
///     biased;
///     () = stop => true,
///     () = async {} => false,
/// };
/// assert!(was_stopped);
/// # });
/// ```
/// No branch is left to wait for, and there is no `else`:
/// ```should_panic
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// runtime::select! {
///     Some(n) = async { None::<u32> } => println!("{n}"),
/// }
/// # });
/// ```
/// All handlers have one type:
/// ```compile_fail
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// runtime::select! {
///     n = async { 1 } => n,
///     _ = async {} => "text",
/// };
/// # });
/// ```
#[macro_export]
macro_rules! select {
    // There is nothing to wait for, so nothing to yield for.
    ($(biased;)? else => $else:expr $(,)?) => {{ $else }};
    (biased; $($branches:tt)+) => {
        $crate::__select!(@start [$crate::__private::always_first] $($branches)+)
    };
    ($($branches:tt)+) => { $crate::__select!(@start [$crate::__private::thread_below] $($branches)+) };
    () => { ::core::compile_error!("`select!` needs at least one branch: `pattern = future => handler`") };
}

/// Reads the branches of `select!`, one in each step, and emits the code.
///
/// `$first` names a function that takes the number of branches and chooses the one to poll first. The first
/// braces hold the numbers and names that are still free, the second braces hold the branches that were read.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    (@start $first:tt $($branches:tt)+) => {
        $crate::__select!(@read $first {
            {0 B0} {1 B1} {2 B2} {3 B3} {4 B4} {5 B5} {6 B6} {7 B7} {8 B8} {9 B9} {10 B10} {11 B11} {12 B12}
            {13 B13} {14 B14} {15 B15} {16 B16} {17 B17} {18 B18} {19 B19} {20 B20} {21 B21} {22 B22}
            {23 B23} {24 B24} {25 B25} {26 B26} {27 B27} {28 B28} {29 B29} {30 B30} {31 B31} {32 B32}
            {33 B33} {34 B34} {35 B35} {36 B36} {37 B37} {38 B38} {39 B39} {40 B40} {41 B41} {42 B42}
            {43 B43} {44 B44} {45 B45} {46 B46} {47 B47} {48 B48} {49 B49} {50 B50} {51 B51} {52 B52}
            {53 B53} {54 B54} {55 B55} {56 B56} {57 B57} {58 B58} {59 B59} {60 B60} {61 B61} {62 B62}
            {63 B63}
        } {} $($branches)+)
    };

    // No branch is left to read.
    (@read $first:tt $free:tt $branches:tt) => {
        $crate::__select!(@run $first $branches ::core::panic!(
            "`select!` has no branch left: each precondition was false or pattern did not match; add an \
             `else` branch"
        ))
    };
    (@read $first:tt $free:tt $branches:tt else => $else:expr $(,)?) => {
        $crate::__select!(@run $first $branches $else)
    };
    (@read $first:tt {} $branches:tt $($rest:tt)+) => {
        ::core::compile_error!("`select!` takes at most 64 branches")
    };

    // One branch. A handler in braces needs no comma after it. Any other handler needs one, unless it is the
    // last.
    (@read $first:tt {{$($name:tt)+} $($free:tt)*} {$($done:tt)*}
        $pattern:pat = $init:expr $(, if $condition:expr)? => $handler:block, $($rest:tt)*) => {
        $crate::__select!(@read $first {$($free)*} {
            $($done)* {$($name)+ future} $pattern = $init, [$($condition)?] => $handler,
        } $($rest)*)
    };
    (@read $first:tt {{$($name:tt)+} $($free:tt)*} {$($done:tt)*}
        $pattern:pat = $init:expr $(, if $condition:expr)? => $handler:block $($rest:tt)*) => {
        $crate::__select!(@read $first {$($free)*} {
            $($done)* {$($name)+ future} $pattern = $init, [$($condition)?] => $handler,
        } $($rest)*)
    };
    (@read $first:tt {{$($name:tt)+} $($free:tt)*} {$($done:tt)*}
        $pattern:pat = $init:expr $(, if $condition:expr)? => $handler:expr, $($rest:tt)*) => {
        $crate::__select!(@read $first {$($free)*} {
            $($done)* {$($name)+ future} $pattern = $init, [$($condition)?] => $handler,
        } $($rest)*)
    };
    (@read $first:tt {{$($name:tt)+} $($free:tt)*} {$($done:tt)*}
        $pattern:pat = $init:expr $(, if $condition:expr)? => $handler:expr) => {
        $crate::__select!(@read $first {$($free)*} {
            $($done)* {$($name)+ future} $pattern = $init, [$($condition)?] => $handler,
        })
    };

    (@run [$first:expr] {$(
        {$index:tt $Variant:ident $future:ident}
        $pattern:pat = $init:expr, [$($condition:expr)?] => $handler:expr,
    )+} $else:expr) => {{
        enum __SelectOutput<$($Variant),+> {
            $($Variant($Variant),)+
            NoneLeft,
        }

        let mut disabled = 0_u64;
        $($( if !$condition { disabled |= 1 << $index; } )?)+

        // The futures live in this block only, so that handlers may use what they borrowed.
        #[allow(unused_mut)]
        let mut output = {
            // Each in a `let` of its own, so that `&mut temporary()` lives as long as in any other `let`.
            $( let $future = $init; )+
            $( let mut $future = ::core::pin::pin!(::core::future::IntoFuture::into_future($future)); )+
            ::core::future::poll_fn(move |cx| {
                ::core::task::ready!($crate::__private::poll_budget(cx));
                let branches = [$($index),+].len() as u32;
                let first = $first(branches);
                let mut is_pending = false;
                for turn in first..first + branches {
                    match turn % branches {
                        // If a future's output type has no values, the code behind its poll is unreachable.
                        $(#[allow(unreachable_code)] $index => {
                            if disabled & (1 << $index) != 0 {
                                continue;
                            }
                            // Not `let … else`. With a `match`, the output type of a future that only panics,
                            // which nothing else names, is `()`.
                            let mut output = match ::core::future::Future::poll($future.as_mut(), cx) {
                                ::core::task::Poll::Ready(output) => output,
                                ::core::task::Poll::Pending => {
                                    is_pending = true;
                                    continue;
                                }
                            };
                            // A future that was ready is never polled again.
                            disabled |= 1 << $index;
                            // The module docs say why this match never succeeds.
                            let mut is_match = false;
                            #[allow(unused_variables, unused_mut)]
                            match output {
                                $pattern if { is_match = true; false } => ::core::unreachable!("refused"),
                                _ => {}
                            }
                            if is_match {
                                return ::core::task::Poll::Ready(__SelectOutput::$Variant(output));
                            }
                        })+
                        _ => ::core::unreachable!("a remainder is less than the divisor"),
                    }
                }
                if is_pending {
                    ::core::task::Poll::Pending
                } else {
                    ::core::task::Poll::Ready(__SelectOutput::NoneLeft)
                }
            })
            .await
        };

        match output {
            $( __SelectOutput::$Variant($pattern) => $handler, )+
            __SelectOutput::NoneLeft => $else,
            // Reached by no output: for the compiler, because a pattern may fail to match.
            #[allow(unreachable_patterns)]
            _ => ::core::unreachable!("the pattern matched when it was tried"),
        }
    }};
}
