#!/usr/bin/env bash
# Installs the C library: headers, shared and static library, pkg-config file, CMake package.
#
#   tools/install-c-library.sh --prefix DIR            builds the library (release) and installs it
#   tools/install-c-library.sh --prefix DIR --from DIR installs liboriole_c.a from a folder where cargo has built it
#
# The shared library is linked here and not by cargo, because rustc writes a linker script without versions of its own, with which a second
# one cannot be combined. Needs a C compiler (CC, or cc) on Linux. DESTDIR is put in front of the prefix, for packages.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
usage() { sed -n '4,5s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

prefix= from=
while (($#)); do
    case $1 in
        --prefix) prefix=${2-}; shift 2 || usage ;;
        --from) from=${2-}; shift 2 || usage ;;
        *) usage ;;
    esac
done
[[ -n $prefix ]] || usage

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
major=${version%%.*}
if [[ -z $from ]]; then
    (cd "$root" && cargo build --release -p oriole-capi)
    from=${CARGO_TARGET_DIR:-$root/target}/release
fi

mkdir -p "${DESTDIR-}$prefix"
# The files name the prefix, so it must be absolute.
prefix=$(cd "${DESTDIR-}$prefix" && pwd)
prefix=${prefix#"${DESTDIR-}"}
target=${DESTDIR-}$prefix
mkdir -p "$target/include/oriole" "$target/lib/pkgconfig" "$target/lib/cmake/Oriole"

install -m 644 "$root"/crates/capi/include/*.h "$target/include/oriole/"
install -m 644 "$from/liboriole_c.a" "$target/lib/liboriole.a"
"${CC:-cc}" -shared -o "$target/lib/liboriole.so.$version" \
    -Wl,-soname,"liboriole.so.$major" -Wl,--version-script="$root/crates/capi/liboriole.map" -Wl,--gc-sections -Wl,-z,now \
    -Wl,--whole-archive "$from/liboriole_c.a" -Wl,--no-whole-archive -lpthread -ldl -lm -lgcc_s
ln -sf "liboriole.so.$version" "$target/lib/liboriole.so.$major"
ln -sf "liboriole.so.$major" "$target/lib/liboriole.so"

cat > "$target/lib/pkgconfig/oriole.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include/oriole

Name: oriole
Description: An open PTX assembler for NVIDIA GPUs
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -loriole
Libs.private: -lpthread -ldl -lm -lgcc_s
END

cat > "$target/lib/cmake/Oriole/OrioleConfig.cmake" <<'END'
# Targets: Oriole::oriole (shared), Oriole::oriole_static.
get_filename_component(_oriole_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET Oriole::oriole)
    add_library(Oriole::oriole SHARED IMPORTED)
    set_target_properties(Oriole::oriole PROPERTIES
        IMPORTED_LOCATION "${_oriole_prefix}/lib/liboriole.so"
        INTERFACE_INCLUDE_DIRECTORIES "${_oriole_prefix}/include/oriole")
    add_library(Oriole::oriole_static STATIC IMPORTED)
    set_target_properties(Oriole::oriole_static PROPERTIES
        IMPORTED_LOCATION "${_oriole_prefix}/lib/liboriole.a"
        INTERFACE_INCLUDE_DIRECTORIES "${_oriole_prefix}/include/oriole"
        INTERFACE_LINK_LIBRARIES "pthread;dl;m;gcc_s")
endif()
unset(_oriole_prefix)
END
cat > "$target/lib/cmake/Oriole/OrioleConfigVersion.cmake" <<END
set(PACKAGE_VERSION "$version")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
    if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
        set(PACKAGE_VERSION_EXACT TRUE)
    endif()
endif()
END
echo "installed liboriole $version in $target"
