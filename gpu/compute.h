#pragma once
// How a model is computed: the settings that decide the bits of its logits.
//
// For one build, machine and value of these settings the logits of a prompt depend on its tokens alone.
// Different settings differ from each other by rounding; kF32 gives the same bits on every instruction set.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::gpu {

enum class Compute : std::uint8_t {
  kF32,   // weights widened in registers, f32 arithmetic: the reference, on a CPU
  kAuto,  // on a GPU kBf16, or kPrecise for small models (models/cuda/model.cc); on a CPU the fastest product
  // that the processor has for a weight's format (gpu/products.h): products of bf16 where there are any, activations being
  // sums of two of them; products of whole numbers for quantised weights, activations being rounded to eight bits; else
  // f32 arithmetic, in an order of its own or kF32's
  kPrecise,  // on a GPU activations are f32, multiplied as sums of two bf16; on a CPU as kF32
  kBf16,     // on a GPU activations are bf16; on a CPU as kAuto
};

std::string_view name_of(Compute compute);
/// Nothing for a word that names none.
std::optional<Compute> compute_named(std::string_view name);
constexpr bool is_precise(Compute compute) {
  return compute == Compute::kF32 || compute == Compute::kPrecise;
}

/// How keys and values are kept (gpu/kv_rows.h).
enum class KvType : std::uint8_t { kF32, kBF16, kInt8, kInt4 };
constexpr bool is_quantised(KvType kv) {
  return kv == KvType::kInt8 || kv == KvType::kInt4;
}
std::string_view name_of(KvType kv);
/// Nothing for a word that names none.
std::optional<KvType> kv_named(std::string_view name);

/// A set of CPU kernels: for each instruction set one table. Of those of one processor a later one is faster.
enum class Isa : std::uint8_t {
  kPlain,        // portable loops: the specification
  kNeon,         // AArch64
  kNeonDotprod,  // with FEAT_DotProd
  kNeonI8mm,     // with FEAT_I8MM and FEAT_BF16 as well
  kAvx2,         // x86-64 with AVX2, FMA and F16C
  kAvx2Vnni,     // with AVX-VNNI
  kAvx512,       // with AVX-512 F, BW and VL
  kAvx512Vnni,   // with AVX512_VNNI
  kAvx512Amx,    // with AMX's tiles, of bf16 and of int8
};

std::string_view name_of(Isa isa);
/// Nothing for a word that names none.
std::optional<Isa> isa_named(std::string_view name);
/// Compiled in, and supported by this processor.
bool is_available(Isa isa);
/// All of them, the best one last.
std::vector<Isa> available_isas();
Isa best_isa();

}  // namespace reprise::gpu
