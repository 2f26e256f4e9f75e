// The products of experts whose weights are bf16.
#include "gpu/cuda/decode_bf16.cuh"
#include "gpu/cuda/decode_tiles.h"
#include "gpu/cuda/expert_products.cuh"

namespace reprise::gpu::cuda {

constinit const ExpertProducts kBf16Experts =
    product::GroupedProducts<product::Bf16Ring, product::Bf16Tiles>::kProducts;

}  // namespace reprise::gpu::cuda
