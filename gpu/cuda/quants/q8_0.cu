#include "gpu/cuda/quants/products.cuh"

namespace reprise::gpu::cuda {

constinit const DeviceFormat kQ8_0OnDevice = quants::OnDevice<quants::FileQ8_0>::describe(kQ8_0Format);

}  // namespace reprise::gpu::cuda
