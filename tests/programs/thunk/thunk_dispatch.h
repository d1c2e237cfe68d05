// Kernels of `thunk_kernels.cl`, put into memory and started without a loader.
#pragma once

#include "thunk_cases.h"

#include <elf.h>

__asm__(".section .rodata\n.balign 4096\nkernels_begin: .incbin \"thunk_kernels.hsaco\"\nkernels_end: .previous\n");
extern const char kernels_begin[], kernels_end[];

// The code object, as the GPU sees it.
static char* loaded;
enum { LOADED = 64 << 10 };

// The descriptor of a kernel, LLVM's `AMDHSAKernelDescriptor.h`.
struct descriptor {
    uint32_t group, private, kernarg, reserved;
    int64_t entry;
    uint32_t more[5], rsrc3, rsrc1, rsrc2;
    uint16_t properties, preload;
};

// Puts the segments where they are addressed from; the kernels need no relocation.
__attribute__((unused)) static void load_kernels(void) {
    const Elf64_Ehdr* file = (const Elf64_Ehdr*)kernels_begin;
    const Elf64_Phdr* segments = (const Elf64_Phdr*)(kernels_begin + file->e_phoff);
    loaded = (char*)in_vram(LOADED);
    for (unsigned i = 0; i < file->e_phnum; i++) {
        if (segments[i].p_type != PT_LOAD) continue;
        CHECK(segments[i].p_vaddr + segments[i].p_memsz <= LOADED, "the code object is larger than its memory");
        memcpy(loaded + segments[i].p_vaddr, kernels_begin + segments[i].p_offset, segments[i].p_filesz);
    }
}

__attribute__((unused)) static struct descriptor* find_kernel(const char* name) {
    const Elf64_Ehdr* file = (const Elf64_Ehdr*)kernels_begin;
    const Elf64_Shdr* sections = (const Elf64_Shdr*)(kernels_begin + file->e_shoff);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s.kd", name);
    for (unsigned i = 0; i < file->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        const Elf64_Sym* symbols = (const Elf64_Sym*)(kernels_begin + sections[i].sh_offset);
        const char* names = kernels_begin + sections[sections[i].sh_link].sh_offset;
        for (uint64_t at = 0; at < sections[i].sh_size / sizeof *symbols; at++)
            if (strcmp(names + symbols[at].st_name, wanted) == 0)
                return (struct descriptor*)(loaded + symbols[at].st_value);
    }
    FAIL("there is no kernel %s", name);
}

// Starts `groups` groups of 64 work-items of a kernel on a PM4 queue.
__attribute__((unused)) static void put_dispatch(struct queue* queue, const char* name, const void* arguments,
                                                 uint32_t groups) {
    struct descriptor* kernel = find_kernel(name);
    const uint64_t code = (uint64_t)(uintptr_t)kernel + (uint64_t)kernel->entry;
    // The only bit of what a kernel may want in its registers: the arguments' address.
    CHECK((kernel->properties & 0x7f) == 8, "%s wants other registers (%#x)", name, kernel->properties);
    const uint32_t wave = kernel->properties >> 10 & 1;
    const uint32_t packets[] = {
        // COMPUTE_PGM_LO and _HI; _RSRC1 and _RSRC2; COMPUTE_START_X to COMPUTE_NUM_THREAD_Z; COMPUTE_USER_DATA
        PACKET3(0x76, 3), 0x20c, (uint32_t)(code >> 8), (uint32_t)(code >> 40),
        PACKET3(0x76, 3), 0x212, kernel->rsrc1, kernel->rsrc2,
        PACKET3(0x76, 2), 0x228, kernel->rsrc3,
        PACKET3(0x76, 7), 0x204, 0, 0, 0, 64, 1, 1,
        PACKET3(0x76, 3), 0x240, LOW(arguments), HIGH(arguments),
        PACKET3(0x15, 4), groups, 1, 1, 1 | wave << 15,
        // Waits for the kernel: EVENT_WRITE of CS_PARTIAL_FLUSH
        PACKET3(0x46, 1), 7 | 4 << 8,
    };
    put(queue, packets, sizeof packets / 4);
}

// The same on an AQL queue; `signal` is an amd_signal_t, of which the kernel's end takes one.
__attribute__((unused)) static void put_aql(struct queue* queue, const char* name, void* arguments, uint32_t groups,
                                            int64_t* signal) {
    uint32_t* packet = queue->ring + queue->index++ % (RING / 64) * 16;
    struct descriptor* kernel = find_kernel(name);
    const uint64_t pointers[2] = {(uint64_t)(uintptr_t)kernel, (uint64_t)(uintptr_t)arguments};
    const uint64_t completion = (uint64_t)(uintptr_t)signal;
    memset(packet + 1, 0, 60);
    ((uint16_t*)packet)[1] = 1;                  // dimensions
    ((uint16_t*)packet)[2] = 64;                 // work-group
    ((uint16_t*)packet)[3] = ((uint16_t*)packet)[4] = 1;
    packet[3] = groups * 64;
    packet[4] = packet[5] = 1;
    packet[6] = kernel->private;
    packet[7] = kernel->group;
    memcpy(packet + 8, pointers, 16);
    memcpy(packet + 14, &completion, 8);
    // A kernel dispatch with a barrier; acquires and releases for the whole system.
    __atomic_store_n((uint16_t*)packet, 2 | 1 << 8 | 2 << 9 | 2 << 11, __ATOMIC_RELEASE);
}
