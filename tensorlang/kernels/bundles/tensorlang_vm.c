/* The virtual machine of tensorlang's bytecode: freestanding C99, no allocation, no state.

     tensorlang_program program;
     int32_t error = tensorlang_vm_open(&program, bytes, size);                 reads all of it once: lengths, checksum, every index
     if (!error) error = tensorlang_vm_weights(&program, weights, weights_size); is this the whole of its file of weights?
     if (!error) error = tensorlang_vm_run(&program, name_dispatch, weights, arena, values);

   `arena` are program.arena_bytes, at a multiple of 64 as `weights` is, one for each call at one time; `values` are the addresses of the
   inputs, then of the outputs; `name_dispatch` comes with the exported kernels. Compile this file, or include it. */

#include <stdint.h>

/* Errors; from TENSORLANG_VM_FUNCTION on, the error of a function is added to it. */
enum {
  TENSORLANG_VM_NONE = 101,     /* no bytecode, or of another version */
  TENSORLANG_VM_CUT = 102,      /* cut off, or written to */
  TENSORLANG_VM_DAMAGED = 103,  /* the checksum differs, or a number in it points nowhere */
  TENSORLANG_VM_WEIGHTS = 104,  /* weights of another program, or not whole */
  TENSORLANG_VM_POINTER = 105,  /* the arena or the weights are not at a multiple of 64 */
  TENSORLANG_VM_FUNCTION = 1000
};

enum {
  TENSORLANG_VM_HEADER = 72,
  TENSORLANG_VM_PORT = 88,
  TENSORLANG_VM_WORD = 16,
  TENSORLANG_VM_MOST_WORDS = 1026,
  TENSORLANG_VM_PASSED = 3
};

typedef int32_t (*tensorlang_dispatch)(int32_t function, const int64_t *words);

typedef struct {
  const uint8_t *bytes, *functions, *code;
  int64_t arena_bytes, weights_bytes, layout, code_bytes;
  uint32_t function_count, inputs, outputs, instructions;
} tensorlang_program;

static uint32_t tensorlang_vm_u32(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t tensorlang_vm_u64(const uint8_t *at) {
  return (uint64_t)tensorlang_vm_u32(at) | (uint64_t)tensorlang_vm_u32(at + 4) << 32;
}

static int64_t tensorlang_vm_i64(const uint8_t *at) {
  const uint64_t bits = tensorlang_vm_u64(at);
  return bits <= (uint64_t)INT64_MAX ? (int64_t)bits : -(int64_t)(UINT64_MAX - bits) - 1;
}

static int tensorlang_vm_begins(const uint8_t *bytes, const char *magic) {
  for (int n = 0; n < 8; n++)
    if (bytes[n] != (uint8_t)magic[n]) return 0;
  return 1;
}

/* CRC-32 of IEEE 802.3, as zlib has it. */
static uint32_t tensorlang_vm_crc(const uint8_t *bytes, int64_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (int64_t n = 0; n < size; n++) {
    crc ^= bytes[n];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xEDB88320u & (0u - (crc & 1u)));
  }
  return ~crc;
}

/* Are the instructions what they should be, up to the last byte? */
static int32_t tensorlang_vm_check(const tensorlang_program *program) {
  const uint32_t bases = TENSORLANG_VM_PASSED + program->inputs + program->outputs;
  int64_t at = 0;
  for (uint32_t n = 0; n < program->instructions; n++) {
    if (program->code_bytes - at < 8) return TENSORLANG_VM_DAMAGED;
    const uint32_t function = tensorlang_vm_u32(program->code + at), words = tensorlang_vm_u32(program->code + at + 4);
    at += 8;
    if (function >= program->function_count || words > TENSORLANG_VM_MOST_WORDS) return TENSORLANG_VM_DAMAGED;
    if (words != tensorlang_vm_u32(program->functions + 8 * (int64_t)function + 4)) return TENSORLANG_VM_DAMAGED;
    if (program->code_bytes - at < TENSORLANG_VM_WORD * (int64_t)words) return TENSORLANG_VM_DAMAGED;
    for (uint32_t word = 0; word < words; word++, at += TENSORLANG_VM_WORD)
      if (tensorlang_vm_u32(program->code + at) >= bases) return TENSORLANG_VM_DAMAGED;
  }
  return at == program->code_bytes ? 0 : TENSORLANG_VM_DAMAGED;
}

int32_t tensorlang_vm_open(tensorlang_program *program, const void *bytes, int64_t size) {
  const uint8_t *data = (const uint8_t *)bytes;
  if (data == 0 || size < TENSORLANG_VM_HEADER || !tensorlang_vm_begins(data, "TLBYTECD")) return TENSORLANG_VM_NONE;
  if (tensorlang_vm_u32(data + 8) != 1) return TENSORLANG_VM_NONE;
  if (tensorlang_vm_u64(data + 16) != (uint64_t)size) return TENSORLANG_VM_CUT;
  if (tensorlang_vm_crc(data + 16, size - 16) != tensorlang_vm_u32(data + 12)) return TENSORLANG_VM_DAMAGED;
  program->bytes = data;
  program->arena_bytes = tensorlang_vm_i64(data + 24);
  program->weights_bytes = tensorlang_vm_i64(data + 32);
  program->layout = tensorlang_vm_i64(data + 40);
  program->code_bytes = tensorlang_vm_i64(data + 48);
  program->function_count = tensorlang_vm_u32(data + 56);
  program->inputs = tensorlang_vm_u32(data + 60);
  program->outputs = tensorlang_vm_u32(data + 64);
  program->instructions = tensorlang_vm_u32(data + 68);
  const int64_t ports = (int64_t)program->inputs + (int64_t)program->outputs;
  const int64_t functions = TENSORLANG_VM_HEADER + TENSORLANG_VM_PORT * ports;
  const int64_t code = functions + 8 * (int64_t)program->function_count;
  if (code > size || program->code_bytes < 0 || program->code_bytes > size - code) return TENSORLANG_VM_DAMAGED;
  program->functions = data + functions;
  program->code = data + code;
  return tensorlang_vm_check(program);
}

int32_t tensorlang_vm_weights(const tensorlang_program *program, const void *weights, int64_t bytes) {
  const uint8_t *data = (const uint8_t *)weights;
  if (data == 0 || bytes != program->weights_bytes || bytes < 64 || !tensorlang_vm_begins(data, "TLWEIGHT")) return TENSORLANG_VM_WEIGHTS;
  if (tensorlang_vm_u32(data + 8) != 1 || tensorlang_vm_i64(data + 16) != bytes) return TENSORLANG_VM_WEIGHTS;
  return tensorlang_vm_i64(data + 24) == program->layout ? 0 : TENSORLANG_VM_WEIGHTS;
}

int32_t tensorlang_vm_run(
    const tensorlang_program *program, tensorlang_dispatch dispatch, const void *weights, void *arena, void *const *values) {
  int64_t words[TENSORLANG_VM_MOST_WORDS];
  if ((uintptr_t)weights % 64 != 0 || (uintptr_t)arena % 64 != 0) return TENSORLANG_VM_POINTER;
  const uint8_t *at = program->code;
  for (uint32_t n = 0; n < program->instructions; n++) {
    const uint32_t function = tensorlang_vm_u32(at), count = tensorlang_vm_u32(at + 4);
    at += 8;
    for (uint32_t word = 0; word < count; word++, at += TENSORLANG_VM_WORD) {
      const uint32_t base = tensorlang_vm_u32(at);
      uintptr_t start = 0;
      if (base == 1) start = (uintptr_t)arena;
      if (base == 2) start = (uintptr_t)weights;
      if (base >= TENSORLANG_VM_PASSED) start = (uintptr_t)values[base - TENSORLANG_VM_PASSED];
      words[word] = (int64_t)start + tensorlang_vm_i64(at + 8);
    }
    const int32_t status = dispatch((int32_t)function, words);
    if (status != 0) return TENSORLANG_VM_FUNCTION + status;
  }
  return 0;
}
