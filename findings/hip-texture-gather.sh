#!/usr/bin/env bash
# Packages: libamdhip64-dev 5.7.1-6+deb13u1, clang-17 1:17.0.6-22+b2 (Debian trixie). Date: 2026-11-30. The headers of
# libamdhip64-dev 6.4.3-5 (Debian sid) are the same there.
#
# Seen: HIP's tex2Dgather takes the component of the texels one too high. Component 0, the default, gathers alpha; 1 gathers
# red, 2 green and 3 blue. So a texture of one channel, which the default is for, gives the alpha of four texels: 1.
# The form that stores through a pointer cannot be used at all: it calls texCubemapLayered, with an argument too few.
#
# Matters to: ports of CUDA's tex2Dgather; tests of samplers, whose expectations have to name the component that the header
# makes of it; emulators, whose result of `image_gather4` is blamed.
# Documentation: CUDA's programming guide on tex2Dgather: comp 0, 1, 2 and 3 gather x, y, z and w. HIP's header has the same
# default, 0, and no remark on another count.
source "$(dirname "$0")/common.bash"
debian hip trixie libamdhip64-dev=5.7.1-6+deb13u1 clang-17=1:17.0.6-22+b2 libstdc++-14-dev
echo "libamdhip64-dev 5.7.1-6+deb13u1, clang-17 17.0.6"

for component in 0 1 2 3; do
    called=$(hip_module hip 17 "__global__ void k(float *out, hipTextureObject_t t) { *out = tex2Dgather<float4>(t, 0, 0, $component).x; }" |
        sed -n 's/.*call.*\(__ockl_image_gather[a-z0-9_A-Z]*\).*/\1/p')
    names=(r g b a) now=(a r g b)
    compare "tex2Dgather, component $component" "__ockl_image_gather4${names[component]}_2D" \
        "__ockl_image_gather4${now[component]}_2D" "$called"
done
refused=$(hip_module hip 17 "__global__ void k(float4 *out, hipTextureObject_t t) { tex2Dgather<float4>(out, t, 0, 0, 0); }" |
    sed -n 's/.*error: //p')
compare "tex2Dgather that stores through a pointer" "no error" "no matching function for call to 'texCubemapLayered'" "$refused"
finish
