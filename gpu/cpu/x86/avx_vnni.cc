// The int8 GEMMs for AVX-VNNI; compiled with -mavxvnni.

#include "gpu/cpu/formats/int8_panels.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {

namespace {

constexpr auto kAvxVnniProducts = products_by_bytes();

}  // namespace

constinit const std::span<const FastProduct> kAvx2VnniProducts = kAvxVnniProducts;

}  // namespace reprise::gpu
