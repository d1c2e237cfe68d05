# Helpers of the scripts beside it: a temporary folder, pinned packages without touching the system, the comparison.
#
# Exit status of a script: 0 as recorded, 1 something behaves differently now, 2 a pinned package is not to be had.
# FINDINGS_CACHE names a folder that keeps Debian's packages between runs; without it each run fetches its own.
# shellcheck shell=bash
set -euo pipefail
export LC_ALL=C

work=$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")
trap 'rm -rf "$work"' EXIT
changed=0

missing() {
    printf 'cannot run: %s\n' "$*" >&2
    exit 2
}

need() {
    local tool
    for tool in "$@"; do command -v "$tool" >/dev/null || missing "$tool is not installed"; done
}

# The archive of this machine's own apt, or BELFRY_DEBIAN_MIRROR.
debian_mirror() {
    if [ -n "${BELFRY_DEBIAN_MIRROR:-}" ]; then
        printf '%s\n' "$BELFRY_DEBIAN_MIRROR"
        return
    fi
    apt-get indextargets --format '$(REPO_URI)|$(RELEASE)' 'Created-By: Packages' |
        awk -F'|' '$1 !~ /security/ && $2 ~ /^(bookworm|trixie|forky|sid|stable|testing|unstable)/ { print $1; exit }'
}

# debian ROOT RELEASE PACKAGE=VERSION...: the packages and what they depend on, unpacked into $work/ROOT.
debian() {
    local root=$work/$1 release=$2 state=$work/apt-$1 mirror archives wanted
    shift 2
    need apt-get dpkg-deb
    [ "$(dpkg --print-architecture)" = amd64 ] || missing "the packages are those of amd64"
    mirror=$(debian_mirror)
    [ -n "$mirror" ] || missing "no Debian archive in apt's sources; name one in BELFRY_DEBIAN_MIRROR"
    mkdir -p "$root" "$state"/{lists/partial,etc/preferences.d,etc/parts}
    archives=${FINDINGS_CACHE:-$state}/debian
    mkdir -p "$archives/partial"
    : >"$state/status"
    printf 'deb [signed-by=%s] %s %s main\n' /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" "$release" \
        >"$state/sources.list"
    cat >"$state/apt.conf" <<CONF
Dir "$state";
Dir::Etc "$state/etc";
Dir::Etc::SourceList "$state/sources.list";
Dir::Etc::SourceParts "$state/etc/parts";
Dir::Etc::Parts "$state/etc/parts";
Dir::State "$state";
Dir::State::Lists "$state/lists";
Dir::State::Status "$state/status";
Dir::Cache "$state";
Dir::Cache::Archives "$archives";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
APT::Architecture "amd64";
APT::Install-Recommends "false";
APT::Sandbox::User "$(id -un)";
Debug::NoLocking "true";
CONF
    APT_CONFIG=$state/apt.conf apt-get -q update >"$state/log" 2>&1 ||
        { cat "$state/log" >&2; missing "the package lists of Debian $release"; }
    APT_CONFIG=$state/apt.conf apt-get -q -y install --download-only "$@" >"$state/log" 2>&1 || {
        tail -5 "$state/log" >&2
        missing "$*: this finding is pinned to that version, and Debian $release no longer has it (or the network fails)"
    }
    # Which files of a shared folder belong to this root.
    wanted=$(APT_CONFIG=$state/apt.conf apt-get -q -y install --print-uris -o Dir::Cache::Archives="$state/none" "$@" |
        sed -n "s/^'[^']*' \([^ ]*\.deb\) .*/\1/p")
    [ -n "$wanted" ] || missing "apt names no files for $*"
    while read -r file; do dpkg-deb -x "$archives/$file" "$root"; done <<<"$wanted"
}

# run ROOT PROGRAM ARGUMENT...: a program of the root, with the root's own loader and libraries.
run() {
    local root=$work/$1 name=$2 program libraries folder
    shift 2
    libraries=$root/usr/lib/x86_64-linux-gnu
    program=$root/usr/bin/$name
    # LLVM's programs have their plain names in a folder of the version.
    for folder in "$root"/usr/lib/llvm-*; do
        [ -e "$folder/bin/$name" ] && program=$folder/bin/$name libraries=$libraries:$folder/lib
    done
    "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$libraries" "$program" "$@"
}

# python PACKAGE==VERSION...: the packages alone, into $work/python; then `run_python`.
python() {
    need python3
    python3 -m pip install -q --disable-pip-version-check --no-deps --only-binary :all: --root-user-action ignore \
        --target "$work/python" "$@" || missing "$*: this finding is pinned to that version"
}

run_python() {
    PYTHONPATH=$work/python PYTHONDONTWRITEBYTECODE=1 python3 "$@"
}

# encode ROOT CPU TEXT: the bytes that llvm-mc writes for one line of assembly, or its first complaint.
encode() {
    { printf '%s\n' "$3" | run "$1" llvm-mc -triple=amdgcn-amd-amdhsa -mcpu="$2" -show-encoding 2>&1 || true; } |
        sed -n 's/.*encoding: \[\(.*\)\]/\1/p; s/.*\(error\|warning\): /\1: /p' | sed 's/0x//g; /^[0-9a-fA-F,]*$/s/,/ /g' |
        paste -sd';'
}

# decode ROOT CPU "HEX HEX...": the text that llvm-mc reads in the bytes, or its first complaint.
decode() {
    { printf '[%s]\n' "$(sed 's/\([0-9a-f][0-9a-f]\)/0x\1/g' <<<"$3")" |
        run "$1" llvm-mc -triple=amdgcn-amd-amdhsa -mcpu="$2" -disassemble 2>&1 || true; } |
        sed -n 's/.*\(error\|warning\): /\1: /p; /^\t[^.]/s/^\t//p' | sed 's/[[:space:]]*$//' | paste -sd';'
}

# hip_module ROOT LLVM SOURCE: the module of a HIP source for gfx1100, before the device libraries are linked; or the complaints.
hip_module() {
    local root=$work/$1 headers
    headers=$(echo "$root/usr/lib/llvm-$2/lib/clang"/*)
    printf '#include <hip/hip_runtime.h>\n%s\n' "$3" >"$work/source.hip"
    run "$1" clang --sysroot="$root" -resource-dir "$headers" -x hip --cuda-device-only --offload-arch=gfx1100 \
        -nogpulib -O1 -S -emit-llvm -o - "$work/source.hip" 2>&1 || true
}

# compare WHAT EXPECTED RECORDED NOW: EXPECTED is a reader's, RECORDED what was seen on the date in the header.
compare() {
    printf '%s\n  expected %s\n  seen     %s\n' "$1" "$2" "$4"
    [ "$3" = "$4" ] && return
    printf '  CHANGED, recorded was %s\n' "$3"
    changed=1
}

finish() {
    if [ "$changed" -ne 0 ]; then
        echo "changed: see the lines above"
        exit 1
    fi
    echo "as recorded"
}

program_with() { # CRATE VERSION: a package `finding` in $work/crate, without its main.rs, that depends on just that version
    mkdir -p "$work/crate/src"
    printf '[package]\nname = "finding"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' \
        "$1" "$2" >"$work/crate/Cargo.toml"
}
