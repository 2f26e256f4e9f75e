// The int8 GEMMs for AVX512_VNNI, and the products that use AMX for many rows (amx_bf16.cc, amx_bytes.cc).
// Compiled with -mavx512vnni.

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "gpu/cpu/formats/int8_panels.h"
#include "gpu/cpu/tables.h"
#include "gpu/cpu/two_bf16.h"
#include "gpu/cpu/x86/amx.h"

namespace reprise::gpu {

namespace {

constexpr auto kVnniProducts = products_by_bytes();
#ifndef REPRISE_WITHOUT_AVX512_AMX
template <class Quant>
void multiply_by_tiles(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                       std::size_t n_begin, std::size_t n_end) {
  constexpr std::size_t kIndex = with_gguf_quants([]<class... All>() {
    constexpr bool kIsIt[] = {std::is_same_v<Quant, All>...};
    return static_cast<std::size_t>(std::find(std::begin(kIsIt), std::end(kIsIt), true) - std::begin(kIsIt));
  });
  kMultiplyByTiles[kIndex](listed, m, w, y, y_stride, n_begin, n_end);
}

constexpr auto kAmxProducts = with_more(
    products_of_quants([]<class Quant>() {
      return product_of_integers<Quant, multiply_by_bytes<Quant, multiply_by_tiles<Quant>>>(32);
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
