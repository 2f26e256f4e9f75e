#include "gpu/cuda/quants/products.cuh"

namespace reprise::gpu::cuda {

constinit const DeviceFormat kIQ4_XSOnDevice = quants::OnDevice<quants::FileIQ4_XS>::describe(kIQ4_XSFormat);

}  // namespace reprise::gpu::cuda
