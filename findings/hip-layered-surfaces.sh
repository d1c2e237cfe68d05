#!/usr/bin/env bash
# Packages: libamdhip64-dev 5.7.1-6+deb13u1, clang-17 1:17.0.6-22+b2 (Debian trixie). Date: 2026-11-30. The headers of
# libamdhip64-dev 6.4.3-5 (Debian sid) are the same there.
#
# Seen: HIP's surf1DLayeredread, surf2DLayeredread and their writes hand the layer to the device library as the level of a
# mipmap: they call __ockl_image_load_lod_2D and __ockl_image_store_lod_2D of a plain 2D image, where the library has
# __ockl_image_load_2Da and __ockl_image_store_2Da for layers. An array of layers has one level, so that layer 0 alone can be
# reached; the image instruction leaves out stores to levels that are not there, and nothing reports it.
#
# Matters to: programs with layered surfaces, whose upper layers stay as they were; tests that only look at layer 0;
# emulators, which have to drop the store as the card does.
# Documentation: the headers name the parameter `layer`; ockl_image.h beside them declares the functions for arrays.
source "$(dirname "$0")/common.bash"
debian hip trixie libamdhip64-dev=5.7.1-6+deb13u1 clang-17=1:17.0.6-22+b2 libstdc++-14-dev
echo "libamdhip64-dev 5.7.1-6+deb13u1, clang-17 17.0.6"

# access BODY: the function of the device library by which a kernel reads or writes an image.
access() {
    hip_module hip 17 "__global__ void k(float4 *v, hipSurfaceObject_t s, int x, int y, int layer) { $1 }" |
        sed -n 's/.*error: //p; s/.*call.*\(__ockl_image_\(load\|store\)[a-z0-9_A-Z]*\).*/\1/p'
}

compare "surf1DLayeredread" __ockl_image_load_1Da __ockl_image_load_lod_1D "$(access 'surf1DLayeredread(v, s, x, layer);')"
compare "surf1DLayeredwrite" __ockl_image_store_1Da __ockl_image_store_lod_1D "$(access 'surf1DLayeredwrite(*v, s, x, layer);')"
compare "surf2DLayeredread" __ockl_image_load_2Da __ockl_image_load_lod_2D "$(access 'surf2DLayeredread(v, s, x, y, layer);')"
compare "surf2DLayeredwrite" __ockl_image_store_2Da __ockl_image_store_lod_2D \
    "$(access 'surf2DLayeredwrite(*v, s, x, y, layer);')"
finish
