#version 450
#extension GL_AMD_shader_ballot : require
#extension GL_ARB_shader_ballot : require
layout(local_size_x=64) in; layout(std430,binding=0) buffer B { uint f[]; } b;
void main(){ uint i=gl_LocalInvocationID.x; if (i%2==0) b.f[i]=swizzleInvocationsAMD(b.f[i],uvec4(1,0,3,2)); }
