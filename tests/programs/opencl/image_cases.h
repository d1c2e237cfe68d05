// What the programs of images share.
#pragma once

#include "cl_cases.h"

// A chip without image instructions makes no images: that it says so is all that a case looks at there.
__attribute__((unused)) static bool without_images(void) {
    open_device();
    cl_bool supported = CL_FALSE;
    CL(clGetDeviceInfo(device, CL_DEVICE_IMAGE_SUPPORT, sizeof supported, &supported, NULL));
    if (supported) return false;
    cl_image_format format = {CL_RGBA, CL_UNORM_INT8};
    cl_image_desc shape = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8, .image_height = 8};
    NOT_MADE(clCreateImage(context, CL_MEM_READ_WRITE, &format, &shape, NULL, &status), CL_INVALID_OPERATION);
    close_device();
    return true;
}

#define IMAGES \
    if (without_images()) return

__attribute__((unused)) static cl_mem make_image(cl_image_format format, cl_image_desc shape, const void* content) {
    cl_mem_flags flags = CL_MEM_READ_WRITE | (content ? CL_MEM_COPY_HOST_PTR : 0);
    cl_mem image = clCreateImage(context, flags, &format, &shape, (void*)content, &status);
    MADE("clCreateImage");
    return image;
}

__attribute__((unused)) static cl_image_desc flat(size_t width, size_t height) {
    return (cl_image_desc){.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = width, .image_height = height};
}

__attribute__((unused)) static void read_image(cl_mem image, size_t width, size_t height, size_t depth, void* to) {
    size_t origin[3] = {0}, region[3] = {width, height, depth};
    CL(clEnqueueReadImage(queue, image, CL_TRUE, origin, region, 0, 0, to, 0, NULL, NULL));
}

__attribute__((unused)) static void run_over(cl_kernel kernel, unsigned dimensions, size_t x, size_t y, size_t z) {
    size_t global[3] = {x, y, z};
    CL(clEnqueueNDRangeKernel(queue, kernel, dimensions, NULL, global, NULL, 0, NULL, NULL));
    CL(clFinish(queue));
    CL(clReleaseKernel(kernel));
}
