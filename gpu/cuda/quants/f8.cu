#include "gpu/cuda/quants/products.cuh"

namespace reprise::gpu::cuda {

// Rows that have a scale of their own are kept in the same way.
constinit const DeviceFormat kF8OnDevice = quants::OnDevice<quants::FileF8>::describe(kF8TileFormat);

}  // namespace reprise::gpu::cuda
