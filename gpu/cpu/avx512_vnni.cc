// The kernels on AVX-512 with products of bytes (AVX512_VNNI), and the same with AMX's products (amx_bf16.cc, amx_bytes.cc); compiled
// with -mavx512vnni.

#include "gpu/cpu/amx.h"
#include "gpu/cpu/int8_panels.h"
#include "gpu/cpu/panel_product.h"
#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"
#include "gpu/cpu/two_bf16.h"

namespace reprise::gpu {

namespace {

constexpr auto kVnniFormats = with_bytes(with_panels(kFormats));
constexpr auto kAmxFormats = with_each_quant(
    with_fast(kVnniFormats, kBF16Format,
              {.activations = &kTwoBf16<32>, .multiply = multiply_bf16_tiles, .outputs_at_once = 32}),
    []<class Quant>() {
      return product_of_whole_numbers<Quant, multiply_by_bytes<Quant, multiply_bytes_by_tiles>>(32);
    });

}  // namespace

constinit const Kernels kAvx512VnniKernels = make_table(Isa::kAvx512Vnni, kVnniFormats);
constinit const Kernels kAvx512AmxKernels = make_table(Isa::kAvx512Amx, kAmxFormats);

}  // namespace reprise::gpu
