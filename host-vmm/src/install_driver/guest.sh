# Puts the driver into the system that this runs in, as root, on another kernel than the system's own.
#
# guest.sh look                      which kernels can have the driver, and what building it lacks
# guest.sh install PACKAGE KERNEL... with what is there
# guest.sh fetch PACKAGE KERNEL...   the same, after apt has fetched what lacks from the system's own sources
# guest.sh finish                    everything is written, nothing can be written any more
# guest.sh keep-resolver, restore-resolver: puts /etc/resolv.conf aside and back
#
# Standard output is for belfry, a line each: `kernel RELEASE`, `skipped RELEASE: WHY`, `missing PACKAGE`, `refused WHY`.
# Whatever else is said goes to standard error.

exec 3>&1 1>&2
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
MODULE=belfry-amdgpu
# Another tree, in tests.
root=${BELFRY_ROOT-}

tell() {
    printf '%s\n' "$*" >&3
}

refuse() {
    tell "refused $*"
    exit 1
}

refuse_full() {
    refuse "its root file system is full; free some space in it, or make disk, partition and file system larger"
}

# Why the kernel $1 cannot have the driver; nothing where it can.
obstacle() {
    if ! dpkg --compare-versions "${1%%[!0-9.]*}" ge 6.12; then
        echo "it is older than 6.12"
        return
    fi
    for config in "$root/boot/config-$1" "$root/lib/modules/$1/config"; do
        [ -f "$config" ] || continue
        grep -q '^CONFIG_DRM=[ym]' "$config" || echo "it has no CONFIG_DRM, as Debian's cloud kernels"
        return
    done
    [ -d "$root/lib/modules/$1/kernel/drivers/gpu/drm" ] || echo "it has no modules of DRM"
}

look() {
    [ -e "$root/usr/bin/dpkg" ] || refuse "it has no dpkg, so it cannot have Debian's packages"
    machine=$(dpkg --print-architecture)
    [ "$machine" = amd64 ] || refuse "it is a system for $machine; the driver is for amd64 alone"
    usable= skipped=
    for kernel in $(ls "$root/lib/modules" 2>/dev/null | sort -V); do
        # Folders of kernels that were removed have modules of others at most.
        [ -e "$root/lib/modules/$kernel/modules.builtin" ] || continue
        why=$(obstacle "$kernel")
        if [ -n "$why" ]; then
            tell "skipped $kernel: $why"
            skipped="$skipped${skipped:+; }$kernel: $why"
            continue
        fi
        tell "kernel $kernel"
        usable="$usable $kernel"
    done
    if [ -z "$usable" ]; then
        [ -n "$skipped" ] || refuse "it has no kernel below /lib/modules; install linux-image-amd64 in it"
        refuse "none of its kernels can have the driver ($skipped); install linux-image-amd64 of Debian 13 or newer in it"
    fi
    [ -e "$root/usr/sbin/dkms" ] || tell "missing dkms"
    [ -e "$root/usr/bin/gcc" ] || tell "missing gcc"
    [ -e "$root/usr/bin/make" ] || tell "missing make"
    for kernel in $usable; do
        # The links of modules to their headers are absolute.
        [ -e "$root/usr/src/linux-headers-$kernel/Makefile" ] || [ -e "$root/lib/modules/$kernel/build/Makefile" ] ||
            tell "missing linux-headers-$kernel"
    done
}

# Whether the driver is there for the kernel $1.
is_built() {
    ls "$root/lib/modules/$1/updates/dkms/" 2>/dev/null | grep -q '^amdgpu\.ko'
}

# What became of building, for the log; then the error.
refuse_build() {
    for log in /var/lib/dkms/$MODULE/*/build/make.log; do
        [ -f "$log" ] || continue
        tail -n 40 "$log"
        ! grep -qi 'no space left' "$log" || refuse_full
    done
    # A quarter of what building takes.
    set -- $(df -Pk / | tail -n 1)
    [ "${4:-0}" -ge 8192 ] || refuse_full
    refuse "DKMS did not build the driver"
}

# For each kernel, whatever the package's own script has done.
build() {
    version=$(dpkg-query -W -f '${Version}' "$MODULE-dkms") || refuse_build "$@"
    for kernel in "$@"; do
        is_built "$kernel" || dkms install -m "$MODULE" -v "$version" -k "$kernel" || refuse_build
        is_built "$kernel" || refuse_build
    done
}

install() {
    package=$1
    shift
    dpkg --install --force-confdef --force-confold "$package" || refuse_build
    build "$@"
}

fetch() {
    package=$1
    shift
    headers=
    for kernel in "$@"; do
        headers="$headers linux-headers-$kernel"
    done
    by_hand="start the system with a network and run \`apt install dkms gcc make$headers\` in it, then try again"
    # Services are not started here.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy || refuse_full
        mine=yes
    fi
    apt-get update || refuse "it lacks what building the driver needs, and apt has no connection here to fetch it; $by_hand"
    if ! apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$package" $headers; then
        set -- $(df -Pk / | tail -n 1)
        [ "${4:-0}" -ge 65536 ] || refuse_full
        refuse "it lacks what building the driver needs, and apt cannot install it; $by_hand"
    fi
    apt-get clean
    [ -z "${mine-}" ] || rm -f $policy
    build "$@"
}

finish() {
    sync
    mount -o remount,ro / || refuse "its root file system cannot be closed"
}

what=$1
shift
case $what in
look) look ;;
install) install "$@" ;;
fetch) fetch "$@" ;;
finish) finish ;;
# The network replaces it.
keep-resolver) [ ! -e /etc/resolv.conf ] && [ ! -L /etc/resolv.conf ] || mv /etc/resolv.conf /etc/resolv.conf.belfry ;;
restore-resolver)
    rm -f /etc/resolv.conf
    [ ! -e /etc/resolv.conf.belfry ] && [ ! -L /etc/resolv.conf.belfry ] || mv /etc/resolv.conf.belfry /etc/resolv.conf
    ;;
*) exit 2 ;;
esac
