// What a debugger asks of waves, and of the code that they run.
#define _GNU_SOURCE
#include "session.h"
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void resume(amd_dbgapi_wave_id_t wave)
{
	CHECK(amd_dbgapi_wave_resume(wave, AMD_DBGAPI_RESUME_MODE_NORMAL, AMD_DBGAPI_EXCEPTION_NONE));
}

void step(amd_dbgapi_wave_id_t wave)
{
	CHECK(amd_dbgapi_wave_resume(wave, AMD_DBGAPI_RESUME_MODE_SINGLE_STEP, AMD_DBGAPI_EXCEPTION_NONE));
	EXPECT(next_wave(AMD_DBGAPI_WAVE_STOP_REASON_SINGLE_STEP).handle == wave.handle);
}

uint64_t program_counter(amd_dbgapi_wave_id_t wave)
{
	uint64_t pc;
	CHECK(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_PC, sizeof pc, &pc));
	return pc;
}

amd_dbgapi_queue_id_t queue_of(amd_dbgapi_wave_id_t wave)
{
	amd_dbgapi_queue_id_t queue;
	CHECK(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_QUEUE, sizeof queue, &queue));
	return queue;
}

uint32_t workgroup_of(amd_dbgapi_wave_id_t wave)
{
	uint32_t group[3];
	CHECK(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_WORKGROUP_COORD, sizeof group, group));
	return group[0];
}

size_t waves(amd_dbgapi_wave_id_t **list)
{
	size_t count;
	CHECK(amd_dbgapi_process_wave_list(process, &count, list, NULL));
	return count;
}

amd_dbgapi_register_id_t register_of(amd_dbgapi_wave_id_t wave, const char *wanted, size_t *count)
{
	amd_dbgapi_register_id_t *list, found = { 0 };
	size_t all;
	CHECK(amd_dbgapi_wave_register_list(wave, &all, &list));
	for (size_t i = 0; i < all; i++) {
		char *name;
		CHECK(amd_dbgapi_register_get_info(list[i], AMD_DBGAPI_REGISTER_INFO_NAME, sizeof name, &name));
		if (!strcmp(name, wanted))
			found = list[i];
		free(name);
	}
	free(list);
	EXPECT(found.handle);
	if (count)
		*count = all;
	return found;
}

void read_memory(uint64_t at, void *bytes, size_t size)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/mem", child);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t done = pread(file, bytes, size, at);
	if (done != (ssize_t)size)
		FAIL("%zd of %zu bytes can be read at %#lx", done, size, (long)at);
	close(file);
}

void write_memory(uint64_t at, const void *bytes, size_t size)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/mem", child);
	int file = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t done = pwrite(file, bytes, size, at);
	if (done != (ssize_t)size)
		FAIL("%zd of %zu bytes can be written at %#lx", done, size, (long)at);
	close(file);
}

/* The file that a code object was loaded of, as its URI says; to be freed. */
static char *load(const char *uri, size_t *size)
{
	const char *rest = strstr(uri, "#offset=");
	char path[512] = "", *end, *image;
	uint64_t offset = rest ? strtoull(rest + 8, &end, 0) : 0;
	EXPECT(rest && sscanf(end, "&size=%zi", size) == 1 && *size < 1 << 24);
	image = malloc(*size);
	if (!strncmp(uri, "memory://", 9)) {
		read_memory(offset, image, *size);
		return image;
	}
	EXPECT(!strncmp(uri, "file://", 7) && (size_t)(rest - uri) < sizeof path);
	memcpy(path, uri + 7, rest - uri - 7);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	EXPECT(file >= 0 && pread(file, image, *size, offset) == (ssize_t)*size);
	close(file);
	return image;
}

/* The value of a symbol in an ELF file; 0 where there is none. */
static uint64_t value_of(const char *image, size_t size, const char *wanted)
{
	const Elf64_Ehdr *file = (const Elf64_Ehdr *)image;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + file->e_shoff);
	EXPECT(size > sizeof *file && file->e_shoff + file->e_shnum * sizeof *sections <= size);
	for (int i = 0; i < file->e_shnum; i++) {
		if (sections[i].sh_type != SHT_SYMTAB && sections[i].sh_type != SHT_DYNSYM)
			continue;
		const Elf64_Sym *symbols = (const Elf64_Sym *)(image + sections[i].sh_offset);
		const char *names = image + sections[sections[i].sh_link].sh_offset;
		for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
			if (!strcmp(names + symbols[k].st_name, wanted))
				return symbols[k].st_value;
	}
	return 0;
}

uint64_t symbol(const char *name)
{
	amd_dbgapi_code_object_id_t *objects;
	size_t count;
	uint64_t found = 0;
	CHECK(amd_dbgapi_process_code_object_list(process, &count, &objects, NULL));
	for (size_t i = 0; i < count && !found; i++) {
		char *uri;
		size_t size;
		int64_t delta;
		CHECK(amd_dbgapi_code_object_get_info(objects[i], AMD_DBGAPI_CODE_OBJECT_INFO_URI_NAME, sizeof uri, &uri));
		CHECK(amd_dbgapi_code_object_get_info(objects[i], AMD_DBGAPI_CODE_OBJECT_INFO_LOAD_ADDRESS, sizeof delta, &delta));
		char *image = load(uri, &size);
		uint64_t value = value_of(image, size, name);
		if (value)
			found = value + delta;
		free(image);
		free(uri);
	}
	free(objects);
	return found;
}

uint64_t wait_symbol(const char *name)
{
	for (;;) {
		amd_dbgapi_wave_id_t wave;
		enum happened what = next(&wave);
		EXPECT(what != ENDED && what != WAVE_STOPPED);
		uint64_t at = what == CODE_LOADED ? symbol(name) : 0;
		if (at)
			return at;
	}
}

struct stop break_at(uint64_t at)
{
	struct stop stop = { .at = at };
	amd_dbgapi_architecture_id_t architecture;
	amd_dbgapi_agent_id_t *agents;
	amd_dbgapi_size_t size, adjust;
	uint8_t *instruction;
	size_t count;
	CHECK(amd_dbgapi_process_agent_list(process, &count, &agents, NULL));
	EXPECT(count == 1);
	CHECK(amd_dbgapi_agent_get_info(agents[0], AMD_DBGAPI_AGENT_INFO_ARCHITECTURE, sizeof architecture, &architecture));
	free(agents);
	CHECK(amd_dbgapi_architecture_get_info(architecture, AMD_DBGAPI_ARCHITECTURE_INFO_BREAKPOINT_INSTRUCTION_SIZE, sizeof size, &size));
	CHECK(amd_dbgapi_architecture_get_info(architecture, AMD_DBGAPI_ARCHITECTURE_INFO_BREAKPOINT_INSTRUCTION_PC_ADJUST, sizeof adjust, &adjust));
	EXPECT(size == 4 && adjust <= size);
	stop.adjust = adjust;
	CHECK(amd_dbgapi_architecture_get_info(architecture, AMD_DBGAPI_ARCHITECTURE_INFO_BREAKPOINT_INSTRUCTION, sizeof instruction, &instruction));
	read_memory(at, stop.original, size);
	write_memory(at, instruction, size);
	free(instruction);
	return stop;
}

void unbreak(const struct stop *stop) { write_memory(stop->at, stop->original, 4); }

amd_dbgapi_wave_id_t next_breakpoint(const struct stop *stop)
{
	amd_dbgapi_wave_id_t wave = next_wave(AMD_DBGAPI_WAVE_STOP_REASON_BREAKPOINT);
	uint64_t pc = program_counter(wave) - stop->adjust;
	EXPECT(pc == stop->at);
	CHECK(amd_dbgapi_write_register(wave, register_of(wave, "pc", NULL), 0, sizeof pc, &pc));
	EXPECT(program_counter(wave) == stop->at);
	return wave;
}
