// The shaders of buffers.c, one for each macro.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

#if defined(sized)
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 2) const uint ADDEND = 1;
layout(constant_id = 3) const bool NEGATED = false;
#elif defined(places)
layout(local_size_x = 4, local_size_y = 2, local_size_z = 2) in;
#elif defined(groups)
layout(local_size_x = 32) in;
#else
layout(local_size_x = 64) in;
#endif

#if defined(sum)
layout(binding = 0) readonly buffer A { uint a[]; };
layout(binding = 1) readonly buffer B { uint b[]; };
layout(binding = 2) writeonly buffer C { uint c[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < c.length()) c[i] = a[i] + b[i];
}
#elif defined(scale)
layout(binding = 0) uniform Constants { uvec4 factors[4]; };
layout(binding = 1) buffer Words { uint words[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    words[i] = words[i] * factors[i / 4 % 4][i % 4] + factors[3].w;
}
#elif defined(pushed)
layout(push_constant) uniform Push { uint add; uint each[15]; uvec2 end; } push;
layout(binding = 0) buffer Words { uint words[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    // All work-items of a workgroup have to name the same element of an array of push constants.
    words[i] += push.add + push.each[gl_WorkGroupID.x % 15] + push.end.y;
}
#elif defined(sized)
layout(binding = 0) buffer Words { uint words[]; };
void main() {
    uint i = gl_WorkGroupID.x * gl_WorkGroupSize.x * gl_WorkGroupSize.y + gl_LocalInvocationIndex;
    uint value = ADDEND + gl_WorkGroupSize.x * 1000 + gl_WorkGroupSize.y;
    words[i] = NEGATED ? ~value : value;
}
#elif defined(linked)
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Node { uvec2 next; uint value; };
layout(push_constant) uniform Push { uvec2 first; } push;
layout(binding = 0) buffer Sums { uint sums[]; };
void main() {
    uint total = 0, steps = 0;
    for (uvec2 at = push.first; (at.x | at.y) != 0; steps++) {
        Node node = Node(at);
        total += node.value * (gl_LocalInvocationIndex + 1);
        at = node.next;
    }
    sums[gl_LocalInvocationIndex] = total + steps;
}
#elif defined(texels)
layout(binding = 0) uniform textureBuffer source;
layout(binding = 1, r32ui) uniform writeonly uimageBuffer target;
void main() {
    int i = int(gl_GlobalInvocationID.x);
    vec4 texel = texelFetch(source, i) * 255;
    imageStore(target, i, uvec4(uint(texel.x) | uint(texel.y) << 8 | uint(texel.z) << 16 | uint(texel.w) << 24));
}
#elif defined(beyond)
layout(binding = 0) buffer Words { uint words[]; };
layout(binding = 1) buffer Out { uint got[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    got[i] = words[i];
    words[i] = 77;
}
#elif defined(places)
layout(binding = 0) buffer Words { uint words[]; };
layout(push_constant) uniform Push { uint width, height; } push;
void main() {
    uvec3 at = gl_GlobalInvocationID;
    words[(at.z * push.height + at.y) * push.width + at.x] +=
        1 + at.x + (at.y << 8) + (at.z << 16) + (gl_LocalInvocationIndex << 24);
}
#elif defined(groups)
layout(binding = 0) buffer Words { uvec4 words[]; };
void main() {
    uvec3 group = gl_WorkGroupID, all = gl_NumWorkGroups;
    uint i = (group.z * all.y + group.y) * all.x + group.x;
    words[i * 32 + gl_LocalInvocationIndex] = uvec4(all, i + 1);
}
#elif defined(step)
layout(binding = 0) buffer Words { uint words[]; };
layout(push_constant) uniform Push { uint add; } push;
void main() {
    uint i = gl_GlobalInvocationID.x;
    words[i] = words[i] * 5 + push.add;
}
#endif
