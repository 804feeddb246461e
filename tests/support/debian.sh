#!/bin/bash
# debian.sh RELEASE FOLDER PACKAGE...: a folder with these packages of a release of Debian, and with
# what they need but for Python and Perl; made at most once.
#
# This machine's apt finds the packages and checks their signatures. They are unpacked, not
# installed: no script of a package runs, which takes a fifth of the time of debootstrap.
set -euo pipefail

[ $# -gt 2 ] || { sed -n '2,3s/^# //p' "$0" >&2 && exit 2; }
RELEASE=$1 TREE=$2
shift 2
NEW=$TREE.new

# The mirror that this machine's apt uses; apt knows it only after "apt-get update".
mirror_of_debian() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
        'Label: Debian' 'Component: main' | head -n 1
}

# of_release COMMAND...: apt-get, with lists and packages of its own, and with nothing installed.
of_release() {
    apt-get --quiet --assume-yes -o Dir::State="$NEW.apt/state" -o Dir::Cache="$NEW.apt/cache" \
        -o Dir::State::status="$NEW.apt/status" -o Dir::Etc::SourceList="$NEW.apt/sources" \
        -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null \
        -o Dir::Etc::PreferencesParts=/dev/null -o Acquire::Languages=none \
        -o APT::Sandbox::User=root -o APT::Update::Post-Invoke-Success::= "$@"
}

# unpack PACKAGE: without what nobody reads here.
unpack() {
    dpkg-deb --fsys-tarfile "$1" | tar --extract --directory "$NEW" --keep-directory-symlink \
        --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' \
        --exclude='./usr/share/locale/*' --exclude='./usr/share/i18n/*'
}

# finish: what scripts of packages would have made.
finish() {
    local name
    mkdir -p "$NEW"/{media,mnt,opt,srv}
    # To mount those of a machine at.
    touch "$NEW"/dev/null "$NEW"/etc/{hosts,resolv.conf}
    [ -e "$NEW/bin/sh" ] || ln -s dash "$NEW/bin/sh"
    for name in passwd group; do
        cp "$NEW/usr/share/base-passwd/$name.master" "$NEW/etc/$name"
    done
}

make_tree() {
    local mirror package
    mirror=$(mirror_of_debian)
    if [ -z "$mirror" ]; then
        apt-get update || true
        mirror=$(mirror_of_debian)
    fi
    [ -n "$mirror" ] || { echo "apt names no mirror of Debian" >&2 && exit 1; }
    rm -rf "$NEW" "$NEW.apt"
    mkdir -p "$NEW" "$NEW.apt"/state/lists/partial "$NEW.apt"/cache/archives/partial
    : >"$NEW.apt/status"
    echo "deb $mirror $RELEASE main" >"$NEW.apt/sources"
    of_release update
    of_release install --no-install-recommends --download-only "$@"
    # Its links from /bin to /usr/bin come before what lies there.
    unpack "$NEW.apt"/cache/archives/base-files_*.deb
    for package in "$NEW.apt"/cache/archives/*.deb; do
        case ${package##*/} in
        base-files_* | python* | libpython*-stdlib_* | libpython*-minimal_* | perl* | libperl*) ;;
        *) unpack "$package" ;;
        esac
    done
    finish
    rm -rf "$NEW.apt"
    mv "$NEW" "$TREE"
}

mkdir -p "$(dirname "$TREE")"
exec 9>"$TREE.lock"
flock 9
[ -d "$TREE" ] || make_tree "$@"
