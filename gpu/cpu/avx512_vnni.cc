// The products of bytes that most processors with AVX-512 have (AVX512_VNNI), and the same for many rows with AMX
// (amx_bf16.cc, amx_bytes.cc); compiled with -mavx512vnni.

#include "gpu/cpu/amx.h"
#include "gpu/cpu/int8_panels.h"
#include "gpu/cpu/tables.h"
#include "gpu/cpu/two_bf16.h"

namespace reprise::gpu {

namespace {

constexpr auto kVnniProducts = products_by_bytes();
#ifndef REPRISE_WITHOUT_AVX512_AMX
constexpr auto kAmxProducts = with_more(
    products_of_quants([]<class Quant>() {
      return product_of_whole_numbers<Quant, multiply_by_bytes<Quant, multiply_bytes_by_tiles>>(32);
    }),
    FastProduct{&kBF16Format,
                {.activations = &kTwoBf16<32>, .multiply = multiply_bf16_tiles, .outputs_at_once = 32}});
#endif

}  // namespace

constinit const std::span<const FastProduct> kAvx512VnniProducts = kVnniProducts;
#ifndef REPRISE_WITHOUT_AVX512_AMX
constinit const std::span<const FastProduct> kAvx512AmxProducts = kAmxProducts;
#endif

}  // namespace reprise::gpu
