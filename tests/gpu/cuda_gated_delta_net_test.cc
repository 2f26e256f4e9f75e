// Gated DeltaNet on a GPU compared with the plain CPU kernels, and bitwise with itself however sequences are
// sliced and batched.

#include "gpu/cuda/memory/stream.h"
#include "gpu/devices.h"
#include "tests/gpu/gated_delta_net_inputs.h"
#include "tests/require.h"

namespace reprise::gpu::test {
namespace {

using cuda::BatchSlice;
using cuda::BatchTile;
using cuda::Bf16;
using cuda::DeviceBytes;

template <class T>
DeviceBytes upload(const std::vector<T>& values, cuda::Stream& stream) {
  DeviceBytes to(values.size() * sizeof(T));
  cuda::copy_to_device(to.data(), values.data(), to.size(), stream.handle());
  stream.wait();
  return to;
}

template <class Row>
struct GpuResult {
  std::vector<Row> out;
  std::vector<std::byte> slot;
  std::vector<std::vector<std::byte>> exported;  // slots after whole tiles
};

/// One slice per input, in order.
template <class Row>
class GpuBatch {
 public:
  GpuBatch(const GatedDeltaNetLayer& layer, const std::vector<GatedDeltaNetRows<Row>>& inputs)
      : layer_(layer),
        conv_(upload(layer.conv, stream_)),
        decay_(upload(layer.decay, stream_)),
        dt_bias_(upload(layer.dt_bias, stream_)),
        norm_(upload(layer.norm, stream_)) {
    std::vector<Row> projected;
    std::vector<std::int32_t> row_slice;
    std::vector<std::int32_t> first_tiles;
    std::vector<std::byte*> wanted;
    for (const GatedDeltaNetRows<Row>& input : inputs) {
      slots_.push_back(upload(input.slot, stream_));
      slices_.push_back({.first_row = rows_,
                         .rows = static_cast<std::int32_t>(input.count(layer)),
                         .stored = 0,
                         .slot = slots_.back().data(),
                         .pages = nullptr});
      rows_ += slices_.back().rows;
      const auto slice = static_cast<std::int32_t>(slices_.size()) - 1;
      row_slice.resize(static_cast<std::size_t>(rows_), slice);
      first_tiles.push_back(tile_count());
      exported_.emplace_back();
      for (std::int32_t first = 0; first < slices_.back().rows; first += cuda::kGrid) {
        tiles_.push_back({.slice = slice, .first = first});
        wanted.push_back(nullptr);
        if (first + cuda::kGrid > slices_.back().rows) continue;
        exported_.back().push_back(upload(input.slot, stream_));
        wanted.back() = exported_.back().back().data();
      }
      projected.insert(projected.end(), input.projected.begin(), input.projected.end());
    }
    projected_ = upload(projected, stream_);
    slices_there_ = upload(slices_, stream_);
    tiles_there_ = upload(tiles_, stream_);
    row_slice_there_ = upload(row_slice, stream_);
    first_tiles_there_ = upload(first_tiles, stream_);
    wanted_there_ = upload(wanted, stream_);
    out_ = DeviceBytes(static_cast<std::size_t>(rows_) * values() * sizeof(Row));
    // The workspace's initial contents must not matter.
    workspace_ = DeviceBytes(
        std::max<std::size_t>(256, cuda::gated_delta_net_workspace<Row>(layer.shape, rows_, tile_count())));
    cuda::fill(workspace_.data(), 0xff, workspace_.size(), stream_.handle());
    cuda::fill(out_.data(), 0xff, out_.size(), stream_.handle());
  }

  void launch(bool decode, bool exporting) {
    const cuda::GatedDeltaNetWeights weights{.conv = conv_.as<float>(),
                                             .decay = decay_.as<float>(),
                                             .dt_bias = dt_bias_.as<float>(),
                                             .norm = norm_.as<float>(),
                                             .norm_eps = layer_.eps};
    const cuda::Batch batch{.slices = slices_there_.as<BatchSlice>(),
                            .tiles = tiles_there_.as<BatchTile>(),
                            .row_slice = row_slice_there_.as<std::int32_t>(),
                            .tokens = nullptr,
                            .positions = nullptr,
                            .slice_count = static_cast<int>(slices_.size()),
                            .tile_count = decode ? 0 : tile_count(),
                            .rows = rows_,
                            .longest = rows_};
    cuda::GatedDeltaNetPass<Row> pass{.projected = projected_.as<Row>(),
                                      .stride = layer_.stride,
                                      .out = out_.as<Row>(),
                                      .workspace = workspace_.data()};
    if (decode) {
      cuda::gated_delta_net_decode(layer_.shape, weights, batch, pass, stream_.handle());
    } else {
      if (exporting) {
        pass.exports = {.tiles = wanted_there_.as<std::byte*>(),
                        .first_tiles = first_tiles_there_.as<std::int32_t>()};
      }
      cuda::gated_delta_net_prefill(layer_.shape, weights, batch, pass, stream_.handle());
    }
  }

  std::vector<GpuResult<Row>> results() {
    std::vector<GpuResult<Row>> all;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      GpuResult<Row>& result = all.emplace_back();
      result.out.resize(static_cast<std::size_t>(slices_[i].rows) * values());
      result.slot.resize(layer_.slot_bytes);
      const std::byte* out =
          out_.data() + static_cast<std::size_t>(slices_[i].first_row) * values() * sizeof(Row);
      cuda::copy_to_host(result.out.data(), out, result.out.size() * sizeof(Row), stream_.handle());
      cuda::copy_to_host(result.slot.data(), slots_[i].data(), result.slot.size(), stream_.handle());
      for (const DeviceBytes& slot : exported_[i]) {
        std::vector<std::byte>& to = result.exported.emplace_back(layer_.slot_bytes);
        cuda::copy_to_host(to.data(), slot.data(), to.size(), stream_.handle());
      }
    }
    stream_.wait();
    return all;
  }

 private:
  std::size_t values() const { return static_cast<std::size_t>(layer_.shape.value_size()); }
  int tile_count() const { return static_cast<int>(tiles_.size()); }

  const GatedDeltaNetLayer& layer_;
  cuda::Stream stream_;
  DeviceBytes conv_, decay_, dt_bias_, norm_, projected_, slices_there_, tiles_there_, out_, workspace_;
  DeviceBytes row_slice_there_, first_tiles_there_, wanted_there_;
  std::vector<std::vector<DeviceBytes>> exported_;  // [slices, whole tiles]
  std::vector<DeviceBytes> slots_;
  std::vector<BatchSlice> slices_;
  std::vector<BatchTile> tiles_;
  std::int32_t rows_ = 0;
};

template <class Row>
std::vector<GpuResult<Row>> run(const GatedDeltaNetLayer& layer,
                                const std::vector<GatedDeltaNetRows<Row>>& inputs, bool decode) {
  GpuBatch<Row> batch(layer, inputs);
  batch.launch(decode, true);
  return batch.results();
}

template <class Row>
void append(GpuResult<Row>& all, const GpuResult<Row>& next) {
  all.out.insert(all.out.end(), next.out.begin(), next.out.end());
  all.slot = next.slot;
}

template <class Row>
GpuResult<Row> decode(const GatedDeltaNetLayer& layer, const GatedDeltaNetRows<Row>& input) {
  GpuResult<Row> all{.out = {}, .slot = input.slot, .exported = {}};
  for (std::size_t t = 0; t < input.count(layer); ++t) {
    append(all, run<Row>(layer, {input.part(layer, t, t + 1, all.slot)}, true)[0]);
  }
  return all;
}

template <class Row>
testing::AssertionResult same(const GpuResult<Row>& a, const GpuResult<Row>& b) {
  if (a.out.size() != b.out.size() ||
      std::memcmp(a.out.data(), b.out.data(), a.out.size() * sizeof(Row)) != 0) {
    return testing::AssertionFailure() << "outputs differ";
  }
  if (a.slot != b.slot) return testing::AssertionFailure() << "slots differ";
  return testing::AssertionSuccess();
}

/// `out_error` is mostly the rounding of outputs to bf16: 1.7e-3 over many rows, up to 2.7e-3 over few.
template <class Row>
void expect_near(const GatedDeltaNetLayer& layer, const GpuResult<Row>& result,
                 const GatedDeltaNetResult& reference, double out_error, double state_error,
                 const std::string& what) {
  std::vector<float> out;
  for (const Row element : result.out) out.push_back(value_of(element));
  EXPECT_LT(relative_error(out, reference.out), out_error) << what << ": outputs";
  EXPECT_LT(relative_error(layer.state_of(result.slot), reference.state), state_error) << what << ": state";
  EXPECT_TRUE(same_bits(layer.history_of(result.slot), reference.history)) << what << ": history";
}

class CudaGatedDeltaNet : public testing::Test {
 protected:
  void SetUp() override {
    if (list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
  }

  template <class Row>
  void prefill_has_the_same_bits_however_it_is_cut();
  template <class Row>
  void prefill_has_the_same_bits_beside_strangers();
  template <class Row>
  void decode_has_the_same_bits_beside_strangers();

  Random random_{7};
  GatedDeltaNetLayer tiny_{random_, 2, 2, 16, 16};
  GatedDeltaNetLayer three_taps_{random_, 1, 3, 64, 48, 3};
  GatedDeltaNetLayer built_in_{random_, 4, 4, 32, 64};
  GatedDeltaNetLayer small_{random_, 16, 16, 128, 128};   // of Qwen3.5-0.8B
  GatedDeltaNetLayer medium_{random_, 16, 32, 128, 128};  // of Qwen3.5-4B
};

TEST_F(CudaGatedDeltaNet, SupportsTheShapesOfItsKernels) {
  for (const GatedDeltaNetLayer* layer : {&tiny_, &three_taps_, &built_in_, &small_, &medium_}) {
    EXPECT_TRUE(cuda::gated_delta_net_supports(layer->shape));
  }
  const auto supports = [&](auto change) {
    cuda::GatedDeltaNetShape shape = tiny_.shape;
    change(shape);
    return cuda::gated_delta_net_supports(shape);
  };
  EXPECT_FALSE(supports([](auto& shape) { shape.key_dim = 48; }));
  EXPECT_FALSE(supports([](auto& shape) { shape.value_dim = 24; }));
  EXPECT_FALSE(supports([](auto& shape) { shape.value_dim = 256; }));
  EXPECT_FALSE(supports([](auto& shape) { shape.value_heads = 3; }));
  EXPECT_FALSE(supports([](auto& shape) { shape.taps = 5; }));
}

TEST_F(CudaGatedDeltaNet, PrefillAgreesWithTheCpu) {
  const std::vector<std::size_t> lengths = {1, 2, 63, 64, 65, 200, 1000};
  const std::vector<std::size_t> few = {3, 130, 1000};
  for (const GatedDeltaNetLayer* layer : {&tiny_, &three_taps_, &built_in_, &small_, &medium_}) {
    const bool large = layer->shape.key_dim == 128;
    std::vector<GatedDeltaNetRows<Bf16>> inputs;
    for (const std::size_t length : large ? few : lengths) {
      inputs.push_back(random_rows<Bf16>(random_, *layer, length, length % 2 == 0));
    }
    const std::vector<GpuResult<Bf16>> results = run<Bf16>(*layer, inputs, false);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string what = std::to_string(layer->shape.value_heads) + " heads, " +
                               std::to_string(inputs[i].count(*layer)) + " rows";
      expect_near(*layer, results[i], gated_delta_net_on_cpu(*layer, inputs[i], true), 3e-3, 3e-4, what);
      // Compared with unrounded q, k and v. In the first rows of a new sequence the norm magnifies rounding.
      if (inputs[i].count(*layer) < 200) continue;
      expect_near(*layer, results[i], gated_delta_net_on_cpu(*layer, inputs[i], false), 8e-3, 5e-3,
                  what + ", unrounded");
    }
  }
}

TEST_F(CudaGatedDeltaNet, PrefillStaysAccurateForEqualKeysAndLargeDecay) {
  GatedDeltaNetLayer layer(random_, 2, 4, 64, 64);
  layer.decay = {100.0F, 1e-3F, 1e-3F, 2.0F};
  layer.dt_bias = {10.0F, -5.0F, -5.0F, 0.0F};
  GatedDeltaNetRows<Bf16> input = random_rows<Bf16>(random_, layer, 300, false);
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
  const std::vector<GpuResult<Bf16>> results = run<Bf16>(layer, {input}, false);
  expect_near(layer, results[0], gated_delta_net_on_cpu(layer, input, true), 2.5e-3, 3e-4, "repeated keys");
}

template <class Row>
void CudaGatedDeltaNet::prefill_has_the_same_bits_however_it_is_cut() {
  for (const GatedDeltaNetLayer* layer : {&tiny_, &three_taps_, &built_in_, &small_}) {
    const std::size_t length = 300;
    const GatedDeltaNetRows<Row> input = random_rows<Row>(random_, *layer, length, false);
    const GpuResult<Row> whole = run<Row>(*layer, {input}, false)[0];
    EXPECT_TRUE(same(run<Row>(*layer, {input}, false)[0], whole)) << "once more";
    GpuResult<Row> pieces{.out = {}, .slot = input.slot, .exported = {}};  // one tile at a time
    for (std::size_t begin = 0; begin < length; begin += 64) {
      const std::size_t end = std::min(length, begin + 64);
      append(pieces, run<Row>(*layer, {input.part(*layer, begin, end, pieces.slot)}, false)[0]);
    }
    EXPECT_TRUE(same(pieces, whole)) << "tile by tile";
    ASSERT_EQ(whole.exported.size(), length / 64);
    for (std::size_t cut = 64; cut < length; cut += 64) {
      GpuResult<Row> first = run<Row>(*layer, {input.part(*layer, 0, cut, input.slot)}, false)[0];
      for (const bool history : {false, true}) {
        const auto part_of = [&](const std::vector<std::byte>& slot) {
          return history ? layer->history_of(slot) : layer->state_of(slot);
        };
        EXPECT_TRUE(same_bits(part_of(whole.exported[cut / 64 - 1]), part_of(first.slot)))
            << "left behind row " << cut;
      }
      append(first, run<Row>(*layer, {input.part(*layer, cut, length, first.slot)}, false)[0]);
      EXPECT_TRUE(same(first, whole)) << "cut at " << cut;
    }
  }
}
TEST_F(CudaGatedDeltaNet, PrefillHasTheSameBitsHoweverItIsCut) {
  prefill_has_the_same_bits_however_it_is_cut<Bf16>();
}
TEST_F(CudaGatedDeltaNet, PrefillOfF32HasTheSameBitsHoweverItIsCut) {
  prefill_has_the_same_bits_however_it_is_cut<float>();
}

template <class Row>
void CudaGatedDeltaNet::prefill_has_the_same_bits_beside_strangers() {
  for (const GatedDeltaNetLayer* layer : {&tiny_, &built_in_, &small_, &medium_}) {
    std::vector<GatedDeltaNetRows<Row>> inputs;
    for (const std::size_t length : {65, 1, 200, 64, 2, 130}) {
      inputs.push_back(random_rows<Row>(random_, *layer, length, inputs.size() % 2 == 0));
    }
    const std::vector<GpuResult<Row>> together = run<Row>(*layer, inputs, false);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(same(run<Row>(*layer, {inputs[i]}, false)[0], together[i])) << "alone, slice " << i;
    }
    std::reverse(inputs.begin(), inputs.end());
    std::vector<GpuResult<Row>> reversed = run<Row>(*layer, inputs, false);
    std::reverse(reversed.begin(), reversed.end());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      EXPECT_TRUE(same(reversed[i], together[i])) << "slice " << i;
  }
}
TEST_F(CudaGatedDeltaNet, PrefillHasTheSameBitsBesideStrangers) {
  prefill_has_the_same_bits_beside_strangers<Bf16>();
}
TEST_F(CudaGatedDeltaNet, PrefillOfF32HasTheSameBitsBesideStrangers) {
  prefill_has_the_same_bits_beside_strangers<float>();
}

TEST_F(CudaGatedDeltaNet, DecodeAgreesWithTheCpu) {
  for (const GatedDeltaNetLayer* layer : {&tiny_, &three_taps_, &built_in_, &small_, &medium_}) {
    const GatedDeltaNetRows<Bf16> input = random_rows<Bf16>(random_, *layer, 8, false);
    expect_near(*layer, decode(*layer, input), gated_delta_net_on_cpu(*layer, input, false), 2.5e-3, 1e-5,
                std::to_string(layer->shape.value_heads) + " heads");
  }
}

template <class Row>
void CudaGatedDeltaNet::decode_has_the_same_bits_beside_strangers() {
  for (const GatedDeltaNetLayer* layer : {&tiny_, &three_taps_, &small_, &medium_}) {
    std::vector<GatedDeltaNetRows<Row>> inputs;
    for (int i = 0; i < 17; ++i) inputs.push_back(random_rows<Row>(random_, *layer, 1, i == 2));
    const std::vector<GpuResult<Row>> together = run<Row>(*layer, inputs, true);
    std::reverse(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(same(run<Row>(*layer, {inputs[i]}, true)[0], together[inputs.size() - 1 - i]))
          << "slice " << i;
    }
  }
}
TEST_F(CudaGatedDeltaNet, DecodeHasTheSameBitsBesideStrangers) {
  decode_has_the_same_bits_beside_strangers<Bf16>();
}
TEST_F(CudaGatedDeltaNet, DecodeOfF32HasTheSameBitsBesideStrangers) {
  decode_has_the_same_bits_beside_strangers<float>();
}

TEST_F(CudaGatedDeltaNet, RowsOfF32AgreeWithTheCpu) {
  GatedDeltaNetLayer max_group(random_, 1, 8, 64, 32, 2);
  for (const GatedDeltaNetLayer* layer : {&tiny_, &three_taps_, &built_in_, &max_group, &small_, &medium_}) {
    std::vector<GatedDeltaNetRows<float>> inputs;
    for (const std::size_t length : {1, 2, 63, 64, 65, 200}) {
      inputs.push_back(random_rows<float>(random_, *layer, length, length % 2 == 0));
    }
    const std::vector<GpuResult<float>> results = run<float>(*layer, inputs, false);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      expect_near(*layer, results[i], gated_delta_net_on_cpu(*layer, inputs[i], false), 1e-4, 2e-5,
                  std::to_string(layer->shape.value_heads) + " heads, " +
                      std::to_string(inputs[i].count(*layer)) + " rows");
    }
  }
}

TEST_F(CudaGatedDeltaNet, RowsOfF32HaveTheSameBitsTokenByToken) {
  for (const GatedDeltaNetLayer* layer : {&tiny_, &three_taps_, &built_in_, &small_}) {
    const GatedDeltaNetRows<float> input = random_rows<float>(random_, *layer, 70, false);
    EXPECT_TRUE(same(decode(*layer, input), run<float>(*layer, {input}, false)[0]));
  }
}

}  // namespace
}  // namespace reprise::gpu::test
