#include "gpu/cuda/quants/products.cuh"

namespace reprise::gpu::cuda {

constinit const DeviceFormat kQ4_KOnDevice = quants::OnDevice<quants::FileQ4_K>::describe(kQ4_KFormat);

}  // namespace reprise::gpu::cuda
