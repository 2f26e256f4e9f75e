#include "gpu/cuda/quants/products.cuh"

namespace reprise::gpu::cuda {

constinit const DeviceFormat kQ6_KOnDevice = quants::OnDevice<quants::FileQ6_K>::describe(kQ6_KFormat);

}  // namespace reprise::gpu::cuda
