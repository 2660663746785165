#!/usr/bin/env bash
# Builds packages of Oriole under target/packages: archives with static programs, and a Debian package. docs/packaging.md describes them.
#
#   tools/dist.sh                 archives for x86-64 and aarch64, and the Debian package of this machine's architecture
#   tools/dist.sh archive TRIPLE  one archive, for example x86_64-unknown-linux-musl
#   tools/dist.sh deb             the Debian package
#   tools/dist.sh check           unpacks all packages, runs the programs, compares their cubins
#   tools/dist.sh reproducible [archive TRIPLE | deb]
#                                 builds everything, or what is named, from two folders, compares the bytes and keeps one of the packages
#
# Needs cargo, git, tar and gzip; for the Debian package dpkg-deb and readelf. A target is installed with `rustup target add TRIPLE`;
# archives need no C compiler, because all programs are linked with rust-lld. PROFILE chooses the cargo profile: dist (default), or quick for a trial.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
profile=${PROFILE:-dist}
triples=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
cd "$root"

fail() { echo "dist.sh: $*" >&2; exit 1; }
step() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }
usage() { sed -n '4,9s/^# *//p' "${BASH_SOURCE[0]}"; }

# The time stamp of all files in packages: that of the last commit, unless the caller sets it.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} || fail "no git history; set SOURCE_DATE_EPOCH"
export SOURCE_DATE_EPOCH
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[[ $version ]] || fail "no version in Cargo.toml"
target=${CARGO_TARGET_DIR:-$root/target}
out=$target/packages
host=$(rustc -vV | sed -n 's/^host: //p')

installed() { [[ -d $(rustc --print sysroot)/lib/rustlib/$1 ]]; }

# build TRIPLE: builds both programs without paths of this machine in them; prints nothing.
build() {
    local flags=()
    installed "$1" || fail "the target $1 is not installed; run: rustup target add $1"
    # Static programs at a fixed address (crates/cli/build.rs). A dependency asks for libdl, which is a part of musl; tools/dist has an empty one.
    # That folder is relative, because flags are part of the names of symbols.
    if [[ $1 == *-musl ]]; then
        flags+=(-Clinker=rust-lld -Clink-self-contained=yes -Ctarget-feature=+crt-static -Crelocation-model=static -Lnative=tools/dist)
    fi
    step "build for $1, profile $profile"
    CARGO_ENCODED_RUSTFLAGS=$(tools/remap-flags.sh "$target" ${flags[@]+"${flags[@]}"}) CARGO_TARGET_DIR=$target \
        cargo build --locked --profile "$profile" -p oriole-cli --bins --target "$1"
}

programs() { echo "$target/$1/$profile"; }

# share FOLDER: writes manual pages and completions with a program that was built, in qemu if it is for another architecture.
share() {
    local triple oriole='' run=()
    for triple in x86_64-unknown-linux-musl aarch64-unknown-linux-musl "$host"; do
        oriole=$(programs "$triple")/oriole
        run=()
        "$oriole" --version >/dev/null 2>&1 && break
        run=("qemu-${triple%%-*}-static")
        "${run[@]}" "$oriole" --version >/dev/null 2>&1 && break
        oriole=
    done
    [[ $oriole ]] || fail "no program that was built runs on this machine, which the manual pages need; build for $host first, or install qemu-user-static"
    mkdir -p "$1"/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    run+=("$oriole")
    "${run[@]}" man "$1/man/man1"
    "${run[@]}" completions bash >"$1/bash-completion/completions/oriole"
    "${run[@]}" completions zsh >"$1/zsh/vendor-completions/_oriole"
    "${run[@]}" completions fish >"$1/fish/vendor_completions.d/oriole.fish"
}

archive() {
    local name=oriole-$version-$1 stage
    build "$1"
    step "archive for $1"
    stage=$(mktemp -d)
    mkdir -p "$stage/$name/bin" "$out"
    install -m 755 "$(programs "$1")"/{oriole,ptxas} "$stage/$name/bin/"
    install -m 644 README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$stage/$name/"
    share "$stage/$name/share"
    chmod -R u=rwX,go=rX "$stage/$name"
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -C "$stage" "$name" |
        gzip -9 --no-name >"$out/$name.tar.gz"
    rm -r "$stage"
    wc -c "$out/$name.tar.gz"
}

# The programs of the Debian package use the C library of the system, so that `oriole run --engine gpu` can load the CUDA driver.
deb() {
    local architecture stage glibc name
    command -v dpkg-deb readelf >/dev/null || fail "dpkg-deb and readelf are needed"
    architecture=$(dpkg --print-architecture)
    name=oriole_${version}_$architecture.deb
    build "$host"
    step "Debian package for $architecture"
    stage=$(mktemp -d)
    mkdir -p "$stage"/{DEBIAN,usr/bin,usr/lib/oriole/bin,usr/share/doc/oriole} "$out"
    install -m 755 "$(programs "$host")/oriole" "$stage/usr/bin/"
    # NVIDIA's packages install /usr/bin/ptxas, so ours has a folder of its own, and another name for the command line.
    install -m 755 "$(programs "$host")/ptxas" "$stage/usr/lib/oriole/bin/"
    ln -s ../lib/oriole/bin/ptxas "$stage/usr/bin/oriole-ptxas"
    share "$stage/usr/share"
    find "$stage/usr/share/man" -name '*.1' -exec gzip -9 --no-name {} +
    gzip -9 --no-name <CHANGELOG.md >"$stage/usr/share/doc/oriole/changelog.gz"
    { printf 'Oriole is licensed under the MIT licence or the Apache licence 2.0, at your option.\n\n'; cat LICENSE-MIT; printf '\n\n'; cat LICENSE-APACHE; } \
        >"$stage/usr/share/doc/oriole/copyright"
    install -m 644 README.md "$stage/usr/share/doc/oriole/"
    glibc=$(readelf --version-info --wide "$stage/usr/bin/oriole" "$stage/usr/lib/oriole/bin/ptxas" | grep -o 'GLIBC_2\.[0-9]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
    cat >"$stage/DEBIAN/control" <<CONTROL
Package: oriole
Version: $version
Architecture: $architecture
Maintainer: The developers of Oriole <oriole@localhost>
Section: devel
Priority: optional
Installed-Size: $(du -sk --apparent-size "$stage/usr" | cut -f1)
Depends: libc6 (>= $glibc), libgcc-s1
Description: PTX assembler for NVIDIA GPUs
 Compiles PTX to cubins, checks PTX, disassembles, verifies and explains machine
 code. /usr/lib/oriole/bin/ptxas takes the place of NVIDIA's ptxas.
CONTROL
    (cd "$stage" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$stage/DEBIAN/md5sums"
    chmod -R u=rwX,go=rX "$stage"
    find "$stage" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
    dpkg-deb --root-owner-group -Zxz --build "$stage" "$out/$name" >/dev/null
    rm -r "$stage"
    wc -c "$out/$name"
}

# Writes the checksums of all packages.
sums() { (cd "$out" && find . -name '*.tar.gz' -o -name '*.deb' | sort | xargs sha256sum | tee SHA256SUMS); }

everything() {
    local triple
    for triple in "${triples[@]}"; do
        if installed "$triple"; then archive "$triple"; else echo "skipped: $triple is not installed (rustup target add $triple)"; fi
    done
    if command -v dpkg-deb >/dev/null; then deb; else echo "skipped: the Debian package, there is no dpkg-deb"; fi
    step "checksums"
    sums
}

# trial NAME ORIOLE PTXAS: runs two programs of a package and compares their cubins with those of the first package.
trial() {
    local cubins=$stage/cubins-$1 example
    mkdir -p "$cubins"
    ${run[@]+"${run[@]}"} "$2" --version
    ${run[@]+"${run[@]}"} "$3" --version | grep 'release 13.0' >/dev/null || fail "$1: ptxas does not print its release"
    for example in examples/*.ptx; do
        ${run[@]+"${run[@]}"} "$2" compile "$example" --arch sm_90a -o "$cubins/$(basename "$example").oriole"
        ${run[@]+"${run[@]}"} "$3" -arch=sm_90a "$example" -o "$cubins/$(basename "$example").ptxas"
    done
    ${run[@]+"${run[@]}"} "$2" run examples/block_sum.ptx
    if [[ $first ]]; then diff -r "$first" "$cubins" || fail "$1: cubins differ from those of the first package"; else first=$cubins; fi
    echo "ok: $1"
}

check() {
    local stage first='' run=() file name folder machine count=0
    stage=$(mktemp -d)
    for file in "$out"/*.tar.gz; do
        [[ -f $file ]] || continue
        name=$(basename "$file" .tar.gz)
        step "$name"
        tar -xzf "$file" -C "$stage"
        folder=$stage/$name
        for needed in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE share/man/man1/oriole.1 share/man/man1/oriole-compile.1 \
            share/bash-completion/completions/oriole share/zsh/vendor-completions/_oriole share/fish/vendor_completions.d/oriole.fish; do
            [[ -s $folder/$needed ]] || fail "$name: $needed is missing"
        done
        readelf --program-headers "$folder/bin/oriole" "$folder/bin/ptxas" | grep INTERP >/dev/null && fail "$name: the programs are not static"
        no_paths "$folder"
        machine=${name#"oriole-$version-"}
        machine=${machine%%-*}
        run=()
        if [[ $machine != "$(uname -m)" ]]; then
            if command -v "qemu-$machine-static" >/dev/null; then
                run=("qemu-$machine-static")
            else
                echo "skipped: $name was not run, there is no qemu-$machine-static"
                continue
            fi
        fi
        trial "$name" "$folder/bin/oriole" "$folder/bin/ptxas"
        count=$((count + 1))
    done
    run=()
    for file in "$out"/*.deb; do
        [[ -f $file ]] || continue
        name=$(basename "$file" .deb)
        step "$name"
        folder=$stage/$name
        dpkg -x "$file" "$folder"
        [[ $(dpkg-deb --field "$file" Package) == oriole ]] || fail "$name: no control file"
        for needed in usr/bin/oriole usr/bin/oriole-ptxas usr/lib/oriole/bin/ptxas usr/share/man/man1/oriole.1.gz usr/share/doc/oriole/copyright \
            usr/share/doc/oriole/changelog.gz usr/share/bash-completion/completions/oriole; do
            [[ -s $folder/$needed ]] || fail "$name: $needed is missing"
        done
        no_paths "$folder"
        trial "$name" "$folder/usr/bin/oriole" "$folder/usr/lib/oriole/bin/ptxas"
        count=$((count + 1))
    done
    rm -r "$stage"
    [[ $count -gt 0 ]] || fail "no package in $out was run"
}

# no_paths FOLDER: fails if a file names a folder of this machine.
no_paths() {
    local path found
    for path in "$root" "${CARGO_HOME:-$HOME/.cargo}" "$target"; do
        found=$(grep -rlF -- "$path" "$1") && fail "these files name $path: $found"
    done
    return 0
}

# Two copies of the committed and uncommitted sources in folders with names of different length, each with build outputs of its own.
reproducible() {
    local work=${TMPDIR:-/tmp}/oriole-reproducible folder
    rm -rf "$work"
    for folder in "$work/one" "$work/another/deeper"; do
        mkdir -p "$folder"
        git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- --ignore-failed-read | tar -x -C "$folder"
        CARGO_TARGET_DIR=$folder/target "$folder/tools/dist.sh" "$@"
    done
    step "comparison"
    diff "$work/one/target/packages/SHA256SUMS" "$work/another/deeper/target/packages/SHA256SUMS" || fail "the packages differ; both are under $work"
    cat "$work/one/target/packages/SHA256SUMS"
    mkdir -p "$out"
    cp "$work/one/target/packages/"* "$out/"
    rm -rf "$work"
    echo "ok: two builds, same bytes"
}

case ${1-} in
    "") everything ;;
    archive) [[ ${2-} ]] || { usage >&2; exit 2; }; archive "$2"; sums ;;
    deb) deb; sums ;;
    check) check ;;
    reproducible) shift; reproducible "$@" ;;
    -h | --help) usage ;;
    *) usage >&2; exit 2 ;;
esac
