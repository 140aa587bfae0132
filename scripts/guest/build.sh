#!/bin/bash
# Build the guest of rdma-e2e: a stock Debian kernel with Soft-RoCE (rdma_rxe)
# and an initramfs with perftest, rping and busybox from Debian packages, and
# atomic-count, which is compiled here.
#
#   guest/build.sh            prints the folder, with vmlinuz and initrd.gz in it
#
# The result is kept in ${XDG_CACHE_HOME:-/var/cache}/lr2-gateway/guest-<hash of
# this recipe>: the recipe is the files of this folder. It is made in a folder
# beside it and put in place by one rename, so an interrupted build leaves
# nothing half-done and two at once don't disturb each other.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$recipe/../lib/setup.sh"

lines() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1"; }

hash=$(cd "$recipe" && cat atomic-count.c build.sh init modules modules-on-demand packages programs | sha256sum | cut -c1-12)
guest=$LR2_CACHE/guest-$hash
if [ -e "$guest/initrd.gz" ]; then
    touch "$guest"
    echo "$guest"
    exit
fi

lr2_packages "to make the guest" busybox-static cpio gcc gzip kmod libc6-dev
mkdir -p "$LR2_CACHE"
work=$(mktemp -d "$LR2_CACHE/.guest-$hash.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$work"

# The general kernel, never the cloud flavour: that one has no rdma_rxe.
kernel_package() { apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends:/ { print $2; exit }'; }
kernel=$(kernel_package)
if [ -z "$kernel" ]; then
    lr2_step "reading package lists" lr2_apt_get update
    kernel=$(kernel_package)
fi
[ -n "$kernel" ] || lr2_die "apt knows no linux-image-amd64: is this an amd64 Debian?"
mapfile -t packages < <(lines "$recipe/packages")

# A distribution folder as Debian has it, /bin and /lib being links into /usr.
debian=$work/debian root=$work/root
mkdir -p "$work/debs" "$debian"/usr/{bin,sbin,lib,lib64} "$root"/usr/{bin,sbin,lib,lib64}
for tree in "$debian" "$root"; do
    for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$tree/$folder"; done
done
fetch() { (cd "$work/debs" && lr2_apt_try download "$kernel" "${packages[@]}"); }
lr2_step "fetching the guest's packages" fetch
for deb in "$work"/debs/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$debian" --exclude='./usr/share/*'
done

debian_lib=$debian/usr/lib/x86_64-linux-gnu
lr2_step "compiling atomic-count" gcc -O2 -Wall -Wextra -Werror -o "$debian/usr/bin/atomic-count" \
    "$recipe/atomic-count.c" -I"$debian/usr/include" -L"$debian_lib" -Wl,-rpath-link,"$debian_lib" -lrdmacm -libverbs

# add FILE...: into the guest, a link together with what it points to.
add() {
    local file target
    for file in "$@"; do
        file=$(realpath -s "$debian/$file")
        while :; do
            (cd "$debian" && cp -a --parents "${file#"$debian"/}" "$root/")
            [ -L "$file" ] || break
            target=$(readlink "$file")
            case $target in /*) file=$debian$target ;; *) file=$(realpath -s "$(dirname "$file")/$target") ;; esac
        done
    done
}
# needs FILE: the libraries it loads, found by the guest's own dynamic linker.
needs() {
    local found
    if ! found=$(chroot "$debian" /lib64/ld-linux-x86-64.so.2 --list "$1" 2>&1) || grep -q 'not found' <<<"$found"; then
        lr2_die "guest/packages lacks a library of $1: $found"
    fi
    grep -o '/[^ ]*' <<<"$found" | grep -v "^$1\$" || true
}
mapfile -t programs < <(lines "$recipe/programs")
# The library side of rxe is a plugin, which no program names.
mapfile -t plugins < <(cd "$debian" && find usr/lib -path '*libibverbs/librxe-*.so' -printf '/%p\n')
[ ${#plugins[@]} -gt 0 ] || lr2_die "no rxe plugin in Debian's ibverbs-providers"
for file in "${programs[@]}" "${plugins[@]}"; do
    [ -e "$debian$file" ] || lr2_die "guest/programs: no $file in guest/packages"
    needs "$file" >>"$work/libraries"
done
mapfile -t libraries < <(sort -u "$work/libraries")
add "${programs[@]}" "${plugins[@]}" "${libraries[@]}" /etc/libibverbs.d/rxe.driver

busybox=$(command -v busybox)
cp "$busybox" "$root/usr/bin/busybox"
for applet in $("$busybox" --list); do
    [ -e "$root/usr/bin/$applet" ] || [ -e "$root/usr/sbin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"
done

version=$(basename "$debian"/usr/lib/modules/*)
lr2_step "choosing kernel modules" depmod -b "$debian" "$version"
while read -r module; do
    modprobe -d "$debian" -S "$version" --show-depends "$module" | awk '$1 == "insmod" { print $2 }'
done < <(lines "$recipe/modules"; lines "$recipe/modules-on-demand") | sort -u >"$work/modules"
while read -r module; do add "${module#"$debian"}"; done <"$work/modules"
add "/lib/modules/$version"/modules.{builtin,builtin.modinfo,order}
depmod -b "$root" "$version"

mkdir -p "$root"/{dev,etc,proc,root,run,sys,tmp}
cp "$recipe/init" "$root/init"
cp "$recipe/modules" "$root/etc/guest-modules"
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"

mkdir "$work/guest"
cp "$debian/boot/vmlinuz-$version" "$work/guest/vmlinuz"
(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) | gzip -1 >"$work/guest/initrd.gz"
echo "$version" >"$work/guest/kernel"
# Lost the race against another build: its result is as good.
mv -T "$work/guest" "$guest" 2>/dev/null || [ -e "$guest/initrd.gz" ]
# Guests of older recipes, once nobody has used them for a month.
find "$LR2_CACHE" -maxdepth 1 \( -name 'guest-*' -o -name '.guest-*' \) -mtime +30 -exec rm -rf {} +
echo "$guest"
