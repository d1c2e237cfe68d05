// The shaders of images.c, one for each macro.
#version 460
#extension GL_EXT_samplerless_texture_functions : require
#extension GL_EXT_shader_image_load_formatted : require

layout(local_size_x = 8, local_size_y = 4, local_size_z = 2) in;
layout(push_constant) uniform Push { uint width, height, depth; } push;

// Places of texels, by the dimensions of the image; z is the slice of those that have some.
#if defined(flip_1d)
#define IMAGE uimage1D
#define AT(p) int((p).x)
#elif defined(flip_1d_array)
#define IMAGE uimage1DArray
#define AT(p) ivec2((p).xz)
#elif defined(flip_2d)
#define IMAGE uimage2D
#define AT(p) ivec2((p).xy)
#elif defined(flip_2d_array)
#define IMAGE uimage2DArray
#define AT(p) ivec3(p)
#elif defined(flip_3d)
#define IMAGE uimage3D
#define AT(p) ivec3(p)
#elif defined(flip_cube)
#define IMAGE uimageCube
#define AT(p) ivec3(p)
#elif defined(mirror_floats)
#define MIRROR image2D
#elif defined(mirror_unsigned)
#define MIRROR uimage2D
#elif defined(mirror_signed)
#define MIRROR iimage2D
#endif

#if defined(IMAGE)
layout(binding = 0, r32ui) uniform readonly IMAGE from;
layout(binding = 1, r32ui) uniform writeonly IMAGE to;
void main() {
    uvec3 p = gl_GlobalInvocationID, size = uvec3(push.width, push.height, push.depth);
    if (any(greaterThanEqual(p, size))) return;
    uint value = imageLoad(from, AT(p)).x;
    imageStore(to, AT(size - 1 - p), uvec4(value * 3 + p.x + (p.y << 8) + (p.z << 16)));
}
#elif defined(MIRROR)
layout(binding = 0) uniform readonly MIRROR from;
layout(binding = 1) uniform writeonly MIRROR to;
void main() {
    uvec2 p = gl_GlobalInvocationID.xy, size = uvec2(push.width, push.height);
    if (gl_GlobalInvocationID.z == 0 && all(lessThan(p, size)))
        imageStore(to, ivec2(size.x - 1 - p.x, p.y), imageLoad(from, ivec2(p)));
}
#elif defined(add_to_texels)
layout(binding = 0, r32ui) uniform uimage2D texels;
layout(binding = 1) buffer Old { uint old[]; };
void main() {
    uvec3 p = gl_GlobalInvocationID;
    // Both slices of work-items add to the same texels.
    imageAtomicAdd(texels, ivec2(p.xy), 1000 + p.x);
    imageAtomicMax(texels, ivec2(p.x, p.y + 2 * push.height), p.x * 70000 + p.z);
    if (p.z == 0) old[p.y * push.width + p.x] = imageAtomicCompSwap(texels, ivec2(p.x, p.y + push.height), p.x, 7);
}
#elif defined(beyond)
layout(binding = 0, r32ui) uniform uimage2D texels;
layout(binding = 1) buffer Out { uint got[]; };
void main() {
    uvec3 p = gl_GlobalInvocationID;
    if (p.z != 0) return;
    ivec2 at = ivec2(p.xy) - 4;
    got[p.y * push.width + p.x] = imageLoad(texels, at).x;
    imageStore(texels, at, uvec4(at.x + at.y * 100));
}
#elif defined(sizes)
layout(binding = 0, r32ui) uniform uimage2DArray texels;
layout(binding = 1) buffer Out { uint got[]; };
void main() {
    ivec3 size = imageSize(texels);
    if (gl_LocalInvocationIndex < 3) got[gl_LocalInvocationIndex] = size[gl_LocalInvocationIndex];
}
#elif defined(fetched)
layout(binding = 0) uniform utexture2D texels;
layout(binding = 1) buffer Out { uvec4 got[]; };
void main() {
    uvec3 p = gl_GlobalInvocationID;
    if (p.z == 0 && p.x < push.width && p.y < push.height)
        got[p.y * push.width + p.x] = texelFetch(texels, ivec2(p.xy), 0);
}
#endif
