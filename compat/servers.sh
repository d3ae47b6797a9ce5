# Read by scripts that need servers of Debian: starts them on the loopback interface, and stops them when the
# script ends. They keep nothing.

SERVERS=
trap stop_servers EXIT

# A port that is free now.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# needed PROGRAM PACKAGE
needed() {
    command -v "$1" >/dev/null || { echo "this needs the Debian package $2" >&2; exit 2; }
}

# Sets SERVERS to the folder of the servers, which other users may enter.
servers_folder() {
    [[ -n $SERVERS ]] || { SERVERS=$(mktemp -d); chmod 755 "$SERVERS"; }
}

# Sets REDIS to the address of a new server.
start_redis() {
    local port tries
    needed redis-server redis-server
    servers_folder
    port=$(free_port)
    redis-server --port "$port" --bind 127.0.0.1 --save "" --appendonly no --dir "$SERVERS" \
        --daemonize no >"$SERVERS/redis.log" 2>&1 &
    REDIS_PID=$!
    for tries in {1..600}; do
        ! redis-cli -p "$port" ping >/dev/null 2>&1 || break
        kill -0 "$REDIS_PID" || { cat "$SERVERS/redis.log" >&2; exit 1; }
        ((tries < 600)) || { echo "redis-server does not answer" >&2; exit 1; }
        sleep 0.1
    done
    REDIS=127.0.0.1:$port
}

# start_postgres [PORT [LINE …]]: sets POSTGRES to the address of a new server, which trusts the user
# `postgres`. The lines say which other users may connect.
start_postgres() {
    local port=${1:-}
    POSTGRES_TOOLS=(/usr/lib/postgresql/*/bin)
    [[ -d ${POSTGRES_TOOLS[0]} ]] || { echo "this needs the Debian package postgresql" >&2; exit 2; }
    [[ -n $port ]] || port=$(free_port)
    servers_folder
    mkdir "$SERVERS/postgres"
    # PostgreSQL refuses to run as root.
    [[ $(id -u) != 0 ]] || chown postgres "$SERVERS/postgres"
    {
        postgres_tool initdb --username postgres --auth trust "$SERVERS/postgres/data"
        printf '%s\n' "${@:2}" | cat - "$SERVERS/postgres/data/pg_hba.conf" >"$SERVERS/pg_hba.conf"
        cp "$SERVERS/pg_hba.conf" "$SERVERS/postgres/data/pg_hba.conf"
        postgres_tool pg_ctl --wait start --pgdata "$SERVERS/postgres/data" --log "$SERVERS/postgres/log" \
            --options "-p $port -k $SERVERS/postgres -c listen_addresses=localhost -c fsync=off"
    } >"$SERVERS/postgres.log" 2>&1 || { tail -20 "$SERVERS/postgres.log" >&2; exit 1; }
    POSTGRES=127.0.0.1:$port
}

# Sets RABBITMQ to the address of a new server, where `guest` has the password `guest`.
start_rabbitmq() {
    local port names tries
    needed rabbitmq-server rabbitmq-server
    servers_folder
    port=$(free_port) names=$(free_port)
    mkdir "$SERVERS/rabbitmq"
    # Erlang starts a name server that outlives it, unless one runs.
    epmd -address 127.0.0.1 -port "$names" >"$SERVERS/names.log" 2>&1 &
    NAMES_PID=$!
    # The command in the PATH writes to the folders of the system. This one becomes the server. It obeys
    # variables with common names, such as LOGS.
    env -i PATH="$PATH" HOME="$SERVERS/rabbitmq" ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT="$names" \
        RABBITMQ_NODENAME=test@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$port" \
        RABBITMQ_DIST_PORT="$(free_port)" \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" \
        RABBITMQ_MNESIA_BASE="$SERVERS/rabbitmq/data" RABBITMQ_LOG_BASE="$SERVERS/rabbitmq/logs" \
        RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE="$SERVERS/rabbitmq/none" \
        RABBITMQ_ENABLED_PLUGINS_FILE="$SERVERS/rabbitmq/plugins" \
        /usr/lib/rabbitmq/bin/rabbitmq-server >"$SERVERS/rabbitmq.log" 2>&1 &
    RABBITMQ_PID=$!
    # It listens when all else has started, which takes 10 s.
    for tries in {1..600}; do
        ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
        kill -0 "$RABBITMQ_PID" || { cat "$SERVERS/rabbitmq.log" >&2; exit 1; }
        sleep 0.2
    done
    ((tries < 600)) || { echo "RabbitMQ does not listen:" >&2; cat "$SERVERS/rabbitmq.log" >&2; exit 1; }
    RABBITMQ=127.0.0.1:$port
}

# Runs a tool of the server as its user.
postgres_tool() {
    local as=()
    [[ $(id -u) != 0 ]] || as=(runuser -u postgres --)
    (cd "$SERVERS/postgres" && "${as[@]}" "${POSTGRES_TOOLS[-1]}/$1" "${@:2}")
}

stop_servers() {
    [[ -z ${REDIS_PID:-} ]] || kill "$REDIS_PID" || true
    [[ -z ${POSTGRES:-} ]] ||
        postgres_tool pg_ctl stop --silent --mode immediate --pgdata "$SERVERS/postgres/data" || true
    # RabbitMQ writes to its folder until it has ended.
    [[ -z ${RABBITMQ_PID:-} ]] || { kill "$RABBITMQ_PID" && wait "$RABBITMQ_PID"; } || true
    [[ -z ${NAMES_PID:-} ]] || kill "$NAMES_PID" || true
    [[ -z $SERVERS ]] || rm -rf "$SERVERS"
    REDIS_PID='' POSTGRES='' RABBITMQ_PID='' NAMES_PID='' SERVERS=''
}
