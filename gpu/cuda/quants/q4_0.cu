#include "gpu/cuda/quants/products.cuh"

namespace reprise::gpu::cuda {

constinit const DeviceFormat kQ4_0OnDevice = quants::OnDevice<quants::FileQ4_0>::describe(kQ4_0Format);

}  // namespace reprise::gpu::cuda
