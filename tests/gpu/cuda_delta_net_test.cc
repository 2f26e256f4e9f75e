// Gated DeltaNet on a GPU: against the plain CPU kernels, and against itself, bit by bit, however sequences
// are cut and batched.

#include <cstdio>

#include "gpu/cuda/stream.h"
#include "gpu/devices.h"
#include "tests/gpu/delta_net_inputs.h"

namespace reprise::gpu::test {
namespace {

using cuda::BatchSlice;
using cuda::BatchTile;
using cuda::DeviceBytes;

template <class T>
DeviceBytes upload(const std::vector<T>& values, cuda::Stream& stream) {
  DeviceBytes to(values.size() * sizeof(T));
  cuda::copy_to_device(to.data(), values.data(), to.size(), stream.handle());
  stream.wait();
  return to;
}

struct GpuResult {
  std::vector<std::uint16_t> out;
  std::vector<std::byte> slot;
};

/// A batch on the GPU, one slice for each of the inputs, rows in their order.
class GpuBatch {
 public:
  GpuBatch(const DeltaNetLayer& layer, const std::vector<DeltaNetRows>& inputs)
      : layer_(layer),
        conv_(upload(layer.conv, stream_)),
        decay_(upload(layer.decay, stream_)),
        dt_bias_(upload(layer.dt_bias, stream_)),
        norm_(upload(layer.norm, stream_)) {
    std::vector<std::uint16_t> projected;
    for (const DeltaNetRows& input : inputs) {
      slots_.push_back(upload(input.slot, stream_));
      slices_.push_back({.first_row = rows_,
                         .rows = static_cast<std::int32_t>(input.count(layer)),
                         .stored = 0,
                         .slot = slots_.back().data(),
                         .pages = nullptr});
      rows_ += slices_.back().rows;
      for (std::int32_t first = 0; first < slices_.back().rows; first += cuda::kGrid) {
        tiles_.push_back({.slice = static_cast<std::int32_t>(slices_.size()) - 1, .first = first});
      }
      projected.insert(projected.end(), input.projected.begin(), input.projected.end());
    }
    projected_ = upload(projected, stream_);
    slices_there_ = upload(slices_, stream_);
    tiles_there_ = upload(tiles_, stream_);
    out_ = DeviceBytes(static_cast<std::size_t>(rows_) * values() * 2);
    // What was in this memory before must not matter.
    workspace_ =
        DeviceBytes(std::max<std::size_t>(256, cuda::delta_net_workspace(layer.shape, rows_, tile_count())));
    cuda::fill(workspace_.data(), 0xff, workspace_.size(), stream_.handle());
    cuda::fill(out_.data(), 0xff, out_.size(), stream_.handle());
  }

  void launch(bool decode) {
    const cuda::DeltaNetWeights weights{.conv = conv_.as<float>(),
                                        .decay = decay_.as<float>(),
                                        .dt_bias = dt_bias_.as<float>(),
                                        .norm = norm_.as<float>(),
                                        .norm_eps = layer_.eps};
    const cuda::Batch batch{.slices = slices_there_.as<BatchSlice>(),
                            .tiles = tiles_there_.as<BatchTile>(),
                            .row_slice = nullptr,
                            .tokens = nullptr,
                            .positions = nullptr,
                            .slice_count = static_cast<int>(slices_.size()),
                            .tile_count = decode ? 0 : tile_count(),
                            .rows = rows_,
                            .longest = rows_};
    const cuda::DeltaNetPass pass{.projected = projected_.as<cuda::Bf16>(),
                                  .stride = layer_.stride,
                                  .out = out_.as<cuda::Bf16>(),
                                  .workspace = workspace_.data()};
    (decode ? cuda::delta_net_decode : cuda::delta_net_prefill)(layer_.shape, weights, batch, pass,
                                                                stream_.handle());
  }

  std::vector<GpuResult> results() {
    std::vector<GpuResult> all;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      GpuResult& result = all.emplace_back();
      result.out.resize(static_cast<std::size_t>(slices_[i].rows) * values());
      result.slot.resize(layer_.slot_bytes);
      const std::byte* out = out_.data() + static_cast<std::size_t>(slices_[i].first_row) * values() * 2;
      cuda::copy_to_host(result.out.data(), out, result.out.size() * 2, stream_.handle());
      cuda::copy_to_host(result.slot.data(), slots_[i].data(), result.slot.size(), stream_.handle());
    }
    stream_.wait();
    return all;
  }

  /// Of one launch, after one that is not measured.
  double microseconds(bool decode, int launches) {
    launch(decode);
    cuda::Stopwatch watch;
    watch.start(stream_.handle());
    for (int i = 0; i < launches; ++i) launch(decode);
    watch.stop(stream_.handle());
    return watch.milliseconds() * 1000 / launches;
  }

 private:
  std::size_t values() const { return static_cast<std::size_t>(layer_.shape.value_size()); }
  int tile_count() const { return static_cast<int>(tiles_.size()); }

  const DeltaNetLayer& layer_;
  cuda::Stream stream_;
  DeviceBytes conv_, decay_, dt_bias_, norm_, projected_, slices_there_, tiles_there_, out_, workspace_;
  std::vector<DeviceBytes> slots_;
  std::vector<BatchSlice> slices_;
  std::vector<BatchTile> tiles_;
  std::int32_t rows_ = 0;
};

std::vector<GpuResult> run(const DeltaNetLayer& layer, const std::vector<DeltaNetRows>& inputs, bool decode) {
  GpuBatch batch(layer, inputs);
  batch.launch(decode);
  return batch.results();
}

std::vector<float> widen(const std::vector<std::uint16_t>& halves) {
  std::vector<float> values;
  for (const std::uint16_t half : halves) values.push_back(from_bf16(half));
  return values;
}

testing::AssertionResult same(const GpuResult& a, const GpuResult& b) {
  if (a.out.size() != b.out.size() || std::memcmp(a.out.data(), b.out.data(), a.out.size() * 2) != 0) {
    return testing::AssertionFailure() << "outputs differ";
  }
  if (a.slot != b.slot) return testing::AssertionFailure() << "slots differ";
  return testing::AssertionSuccess();
}

/// `out_error`: most of it is the rounding of outputs to bf16: 1.7e-3 of many, up to 2.7e-3 of a few.
void expect_near(const DeltaNetLayer& layer, const GpuResult& result, const DeltaNetResult& reference,
                 double out_error, double state_error, const std::string& what) {
  EXPECT_LT(relative_error(widen(result.out), reference.out), out_error) << what << ": outputs";
  EXPECT_LT(relative_error(layer.state_of(result.slot), reference.state), state_error) << what << ": state";
  EXPECT_TRUE(same_bits(layer.history_of(result.slot), reference.history)) << what << ": history";
}

class CudaDeltaNet : public testing::Test {
 protected:
  void SetUp() override {
    if (list_devices().empty()) GTEST_SKIP() << "no GPU";
  }
  Random random_{7};
  DeltaNetLayer tiny_{random_, 2, 2, 16, 16};
  DeltaNetLayer three_taps_{random_, 1, 3, 64, 48, 3};
  DeltaNetLayer built_in_{random_, 4, 4, 32, 64};
  DeltaNetLayer small_{random_, 16, 16, 128, 128};   // of Qwen3.5-0.8B
  DeltaNetLayer medium_{random_, 16, 32, 128, 128};  // of Qwen3.5-4B
};

TEST_F(CudaDeltaNet, SupportsTheShapesOfItsKernels) {
  for (const DeltaNetLayer* layer : {&tiny_, &three_taps_, &built_in_, &small_, &medium_}) {
    EXPECT_TRUE(cuda::delta_net_supports(layer->shape));
  }
  const auto supports = [&](auto change) {
    cuda::DeltaNetShape shape = tiny_.shape;
    change(shape);
    return cuda::delta_net_supports(shape);
  };
  EXPECT_FALSE(supports([](auto& shape) { shape.key_dim = 48; }));
  EXPECT_FALSE(supports([](auto& shape) { shape.value_dim = 24; }));
  EXPECT_FALSE(supports([](auto& shape) { shape.value_dim = 256; }));
  EXPECT_FALSE(supports([](auto& shape) { shape.value_heads = 3; }));
  EXPECT_FALSE(supports([](auto& shape) { shape.taps = 5; }));
}

TEST_F(CudaDeltaNet, PrefillAgreesWithTheCpu) {
  const std::vector<std::size_t> lengths = {1, 2, 63, 64, 65, 200, 1000};
  const std::vector<std::size_t> few = {3, 130, 1000};
  for (const DeltaNetLayer* layer : {&tiny_, &three_taps_, &built_in_, &small_, &medium_}) {
    const bool large = layer->shape.key_dim == 128;
    std::vector<DeltaNetRows> inputs;
    for (const std::size_t length : large ? few : lengths) {
      inputs.push_back(random_rows(random_, *layer, length, length % 2 == 0));
    }
    const std::vector<GpuResult> results = run(*layer, inputs, false);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string what = std::to_string(layer->shape.value_heads) + " heads, " +
                               std::to_string(inputs[i].count(*layer)) + " rows";
      expect_near(*layer, results[i], delta_net_on_cpu(*layer, inputs[i], true), 3e-3, 3e-4, what);
      // Against q, k and v as they were. In the first rows of a fresh sequence the norm makes much of little.
      if (inputs[i].count(*layer) < 200) continue;
      expect_near(*layer, results[i], delta_net_on_cpu(*layer, inputs[i], false), 8e-3, 5e-3,
                  what + ", unrounded");
    }
  }
}

TEST_F(CudaDeltaNet, PrefillKeepsItsAccuracyWhereKeysRepeatAndDecaysAreStrong) {
  DeltaNetLayer layer(random_, 2, 4, 64, 64);
  layer.decay = {100.0F, 1e-3F, 1e-3F, 2.0F};
  layer.dt_bias = {10.0F, -5.0F, -5.0F, 0.0F};
  DeltaNetRows input = random_rows(random_, layer, 300, false);
  const auto stride = static_cast<std::size_t>(layer.stride);
  const auto channels = static_cast<std::size_t>(layer.shape.channels());
  const auto keys_end = static_cast<std::size_t>(2 * layer.shape.key_heads * layer.shape.key_dim);
  for (std::size_t row = 1; row < 300; ++row) {  // all keys alike, and beta near one
    std::uint16_t* to = input.projected.data() + row * stride;
    std::copy(input.projected.begin(), input.projected.begin() + static_cast<std::ptrdiff_t>(keys_end), to);
    for (std::size_t head = 0; head < 4; ++head) {
      to[channels + static_cast<std::size_t>(layer.shape.value_size()) + head] = round_to_bf16(6.0F);
    }
  }
  const std::vector<GpuResult> results = run(layer, {input}, false);
  expect_near(layer, results[0], delta_net_on_cpu(layer, input, true), 2.5e-3, 3e-4, "repeated keys");
}

TEST_F(CudaDeltaNet, PrefillHasTheSameBitsHoweverItIsCut) {
  for (const DeltaNetLayer* layer : {&tiny_, &three_taps_, &built_in_, &small_}) {
    const std::size_t length = 300;
    const DeltaNetRows input = random_rows(random_, *layer, length, false);
    const GpuResult whole = run(*layer, {input}, false)[0];
    EXPECT_TRUE(same(run(*layer, {input}, false)[0], whole)) << "once more";
    GpuResult pieces{.out = {}, .slot = input.slot};  // a tile at a time
    for (std::size_t begin = 0; begin < length; begin += 64) {
      const std::size_t end = std::min(length, begin + 64);
      const GpuResult piece = run(*layer, {input.part(*layer, begin, end, pieces.slot)}, false)[0];
      pieces.out.insert(pieces.out.end(), piece.out.begin(), piece.out.end());
      pieces.slot = piece.slot;
    }
    EXPECT_TRUE(same(pieces, whole)) << "tile by tile";
    for (std::size_t cut = 64; cut < length; cut += 64) {
      GpuResult first = run(*layer, {input.part(*layer, 0, cut, input.slot)}, false)[0];
      const GpuResult rest = run(*layer, {input.part(*layer, cut, length, first.slot)}, false)[0];
      first.out.insert(first.out.end(), rest.out.begin(), rest.out.end());
      first.slot = rest.slot;
      EXPECT_TRUE(same(first, whole)) << "cut at " << cut;
    }
  }
}

TEST_F(CudaDeltaNet, PrefillHasTheSameBitsBesideStrangers) {
  for (const DeltaNetLayer* layer : {&tiny_, &built_in_, &small_, &medium_}) {
    std::vector<DeltaNetRows> inputs;
    for (const std::size_t length : {65, 1, 200, 64, 2, 130}) {
      inputs.push_back(random_rows(random_, *layer, length, inputs.size() % 2 == 0));
    }
    const std::vector<GpuResult> together = run(*layer, inputs, false);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(same(run(*layer, {inputs[i]}, false)[0], together[i])) << "alone, slice " << i;
    }
    std::reverse(inputs.begin(), inputs.end());
    std::vector<GpuResult> reversed = run(*layer, inputs, false);
    std::reverse(reversed.begin(), reversed.end());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      EXPECT_TRUE(same(reversed[i], together[i])) << "slice " << i;
  }
}

TEST_F(CudaDeltaNet, DecodeAgreesWithTheCpu) {
  for (const DeltaNetLayer* layer : {&tiny_, &three_taps_, &built_in_, &small_, &medium_}) {
    const std::size_t tokens = 8;
    const DeltaNetRows input = random_rows(random_, *layer, tokens, false);
    GpuResult all{.out = {}, .slot = input.slot};
    for (std::size_t t = 0; t < tokens; ++t) {
      const GpuResult one = run(*layer, {input.part(*layer, t, t + 1, all.slot)}, true)[0];
      all.out.insert(all.out.end(), one.out.begin(), one.out.end());
      all.slot = one.slot;
    }
    expect_near(*layer, all, delta_net_on_cpu(*layer, input, false), 2.5e-3, 1e-5,
                std::to_string(layer->shape.value_heads) + " heads");
  }
}

TEST_F(CudaDeltaNet, DecodeHasTheSameBitsBesideStrangers) {
  for (const DeltaNetLayer* layer : {&tiny_, &three_taps_, &small_, &medium_}) {
    std::vector<DeltaNetRows> inputs;
    for (int i = 0; i < 17; ++i) inputs.push_back(random_rows(random_, *layer, 1, i == 2));
    const std::vector<GpuResult> together = run(*layer, inputs, true);
    std::reverse(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(same(run(*layer, {inputs[i]}, true)[0], together[inputs.size() - 1 - i])) << "slice " << i;
    }
  }
}

/// Prints; decides nothing.
TEST_F(CudaDeltaNet, Times) {
  for (const DeltaNetLayer* layer : {&small_, &medium_}) {
    const DeltaNetRows token = random_rows(random_, *layer, 1, false);
    const std::vector<std::uint16_t> rows = random_rows(random_, *layer, 512, true).projected;
    DeltaNetRows prompt{.projected = {}, .slot = token.slot};
    for (int i = 0; i < 16; ++i) prompt.projected.insert(prompt.projected.end(), rows.begin(), rows.end());
    const double prefill = GpuBatch(*layer, {prompt}).microseconds(false, 5);
    const double one = GpuBatch(*layer, {token}).microseconds(true, 200);
    const double some = GpuBatch(*layer, std::vector<DeltaNetRows>(16, token)).microseconds(true, 100);
    const double many = GpuBatch(*layer, std::vector<DeltaNetRows>(64, token)).microseconds(true, 50);
    std::printf(
        "%d value heads: prefill of 8192 %.0f us, decode of 1 %.1f us, of 16 %.1f us, of 64 %.1f us\n",
        layer->shape.value_heads, prefill, one, some, many);
  }
}

}  // namespace
}  // namespace reprise::gpu::test
