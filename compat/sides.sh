# Read by the scripts of this folder's programs: builds one source twice, on ours and on the published Tokio.
#
# The published side is the same source in the build folder, without `[patch.crates-io]` and with the lock
# file `published.lock`, which is made anew if it is removed. What both lock files have must be in the same
# version. Both sides are built in the same folder: what depends on neither Tokio is built once. Cargo only
# warns when it cannot use a patch, so each lock file must say which tokio and rayon-core it has.

exec </dev/null
unset RUSTFLAGS RUSTDOCFLAGS CARGO_BUILD_TARGET
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
TOKIO=1.54.1 RAYON_CORE=1.13.0
HERE=$PWD
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-../../target/compat}")
export CARGO_TARGET_DIR
SIDES=$CARGO_TARGET_DIR/sides/$(basename "$HERE")

# Prints the folder of the side $1, `ours` or `published`.
folder() {
    case $1 in
    ours) echo "$HERE" ;;
    published) echo "$SIDES/published" ;;
    *) echo "a side is \`ours\` or \`published\`, not \"$1\"" >&2; return 1 ;;
    esac
}

# Makes the package of the published side.
prepare_published() {
    local folder=$SIDES/published file
    mkdir -p "$folder"
    sed '/^\[patch\.crates-io\]$/,/^$/d' Cargo.toml >"$folder/Cargo.toml"
    for file in build.rs src; do
        ln -sfn "$HERE/$file" "$folder/$file"
    done
    [[ -e published.lock ]] || lock_published "$folder"
    cp published.lock "$folder/Cargo.lock"
}

# Makes `published.lock` of ours: Cargo takes away what is ours, and chooses the newest of what is missing.
lock_published() {
    cp Cargo.lock "$1/Cargo.lock"
    (
        cd "$1"
        cargo update --quiet --workspace
        cargo update --quiet --package tokio --precise "$TOKIO"
        ! grep -q '^name = "rayon-core"$' Cargo.lock ||
            cargo update --quiet --package rayon-core --precise "$RAYON_CORE"
    )
    cp "$1/Cargo.lock" published.lock
}

# Prints name and version of what the lock file of the side $1 has from the registry.
registry() {
    awk '/^name/ { name = $3 } /^version/ { version = $3 } /^source/ { print name, version }' \
        "$(folder "$1")/Cargo.lock" | sort
}

# Checks the lock file of the side $1: ours has no source for tokio and rayon-core, the published has one.
check_lock() {
    local package lock sources
    lock=$(folder "$1")/Cargo.lock
    for package in tokio rayon-core; do
        grep -q "^name = \"$package\"\$" "$lock" || continue
        sources=$(sed -n "/^name = \"$package\"\$/,/^\$/p" "$lock" | grep -c '^source = ' || true)
        case $1,$sources in
        ours,0 | published,1) ;;
        *) echo "$lock names $package with $sources sources" >&2; return 1 ;;
        esac
    done
    grep -q '^name = "tokio"$' "$lock" || { echo "$lock has no tokio" >&2; return 1; }
}

# What both lock files have from the registry is in the same version.
check_same() {
    local names other
    names=$(comm -12 <(registry published | cut -d' ' -f1 | uniq) <(registry ours | cut -d' ' -f1 | uniq))
    other=$(comm -23 <(registry published) <(registry ours) | grep -F "$names" || true)
    [[ -z $other ]] || { echo "published.lock has other versions than Cargo.lock: $other" >&2; return 1; }
}

# build_side SIDE OPTION …: builds the side with these options, and leaves the program $SIDES/SIDE.program.
build_side() {
    local side=$1 name profile=debug
    name=$(sed -n 's/^name = "\(.*\)"/\1/p' Cargo.toml | head -1)
    [[ $side == ours ]] || prepare_published
    check_lock "$side"
    [[ $side == ours ]] || check_same
    [[ " $* " != *" --release "* ]] || profile=release
    cargo build --locked --manifest-path "$(folder "$side")/Cargo.toml" "${@:2}"
    # The other side's program has the same name.
    mkdir -p "$SIDES"
    cp "$CARGO_TARGET_DIR/$profile/$name" "$SIDES/$side.new"
    mv "$SIDES/$side.new" "$SIDES/$side.program"
}
