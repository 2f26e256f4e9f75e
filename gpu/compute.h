#pragma once
// The settings that decide the bits of a model's logits: arithmetic, KV type and instruction set.
//
// For one build, machine and choice of settings the logits of a prompt depend on its tokens alone. Different
// settings differ by rounding; kF32 is bitwise identical on every instruction set.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::gpu {

enum class Compute : std::uint8_t {
  kF32,  // the reference, on a CPU: weights widened in registers, f32 arithmetic
  // GPU: kBf16, or kPrecise for small models (models/cuda/model.h). CPU: the fastest product for the
  // weight's format (gpu/weights/products.h): integer products of activations rounded to int8 for quantized
  // weights; bf16 instructions, where available, on activations split into two bf16 for others; else f32.
  kAuto,
  kPrecise,  // GPU: f32 activations, multiplied as sums of two bf16. CPU: as kF32
  kBf16,     // GPU: bf16 activations. CPU: as kAuto
};

std::string_view name_of(Compute compute);
std::optional<Compute> compute_named(std::string_view name);
constexpr bool is_precise(Compute compute) {
  return compute == Compute::kF32 || compute == Compute::kPrecise;
}

/// The element type of the KV cache; layouts are in gpu/state/kv_rows.h.
enum class KvType : std::uint8_t { kF32, kBF16, kInt8, kInt4 };
constexpr bool is_quantized(KvType kv) {
  return kv == KvType::kInt8 || kv == KvType::kInt4;
}
std::string_view name_of(KvType kv);
std::optional<KvType> kv_named(std::string_view name);

/// Instruction sets with a kernel table, in ascending order of speed on one processor.
enum class Isa : std::uint8_t {
  kPlain,        // portable loops: the specification
  kNeon,         // AArch64
  kNeonDotprod,  // with FEAT_DotProd
  kNeonI8mm,     // with FEAT_I8MM and FEAT_BF16 as well
  kAvx2,         // x86-64 with AVX2, FMA and F16C
  kAvx2Vnni,     // with AVX-VNNI
  kAvx512,       // with AVX-512 F, BW and VL
  kAvx512Vnni,   // with AVX512_VNNI
  kAvx512Amx,    // with AMX-BF16 and AMX-INT8
};

std::string_view name_of(Isa isa);
std::optional<Isa> isa_named(std::string_view name);
/// True if its table is compiled in and this processor supports it.
bool is_available(Isa isa);
/// The available instruction sets, the best one last.
std::vector<Isa> available_isas();
Isa best_isa();

}  // namespace reprise::gpu
