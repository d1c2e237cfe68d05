// The shaders of queues.c, one for each macro.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

layout(local_size_x = 64) in;

#if defined(step)
layout(binding = 0) buffer Words { uint words[]; };
layout(push_constant) uniform Push { uint add; } push;
void main() {
    uint i = gl_GlobalInvocationID.x;
    words[i] = words[i] * 5 + push.add;
}
#elif defined(copied)
layout(binding = 0) buffer In { uint words[]; };
layout(binding = 1) buffer Out { uint got[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    got[i] = words[i] + 1;
    words[i] = i;
}
#elif defined(wild)
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Word { uint value; };
layout(push_constant) uniform Push { uvec2 at; } push;
void main() { Word(push.at).value = 1; }
#endif
