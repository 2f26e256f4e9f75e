#include "gpu/cuda/quants/products.cuh"

namespace reprise::gpu::cuda {

constinit const DeviceFormat kQ5_KOnDevice = quants::OnDevice<quants::FileQ5_K>::describe(kQ5_KFormat);

}  // namespace reprise::gpu::cuda
