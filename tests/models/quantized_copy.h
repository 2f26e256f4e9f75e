#pragma once
// Copies a GGUF file of f32 tensors twice: with matrices in Q8_0, and with the same values in f32. A model
// must compute the same with both.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::models::test {

class QuantizedCopy {
 public:
  explicit QuantizedCopy(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    at_ = 8;
    const auto tensors = take<std::uint64_t>();
    const auto keys = take<std::uint64_t>();
    for (std::uint64_t i = 0; i < keys; ++i) {
      skip_text();
      skip_value(take<std::uint32_t>());
    }
    head_ = bytes_.substr(0, at_);
    for (std::uint64_t i = 0; i < tensors; ++i) read_info();
    const std::size_t data = (at_ + kAlignment - 1) / kAlignment * kAlignment;
    for (Info& info : infos_) info.offset += data;
  }

  std::size_t matrices() const {
    std::size_t count = 0;
    for (const Info& info : infos_) count += is_matrix(info) ? 1 : 0;
    return count;
  }

  std::string quantized() const { return copy(true); }
  std::string widened() const { return copy(false); }

 private:
  static constexpr std::size_t kAlignment = 32;  // GGUF's default
  static constexpr std::uint32_t kF32 = 0;
  static constexpr std::uint32_t kQ8_0 = 8;
  static constexpr std::size_t kBlock = 32;

  struct Info {
    std::string name;
    std::vector<std::uint64_t> sizes;  // columns first
    std::uint32_t type;
    std::uint64_t offset;

    std::size_t elements() const {
      std::size_t count = 1;
      for (const std::uint64_t size : sizes) count *= size;
      return count;
    }
  };

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  void skip_text() { at_ += take<std::uint64_t>(); }
  void skip_value(std::uint32_t type) {
    static constexpr std::size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) return skip_text();
    if (type != 9) {
      at_ += kSizes[type];
      return;
    }
    const auto element = take<std::uint32_t>();
    const auto count = take<std::uint64_t>();
    for (std::uint64_t i = 0; i < count; ++i) skip_value(element);
  }
  void read_info() {
    Info info;
    const auto length = take<std::uint64_t>();
    info.name = bytes_.substr(at_, length);
    at_ += length;
    const auto dimensions = take<std::uint32_t>();
    for (std::uint32_t d = 0; d < dimensions; ++d) info.sizes.push_back(take<std::uint64_t>());
    info.type = take<std::uint32_t>();
    info.offset = take<std::uint64_t>();
    if (info.type != kF32) throw std::invalid_argument(info.name + " is no f32");
    infos_.push_back(std::move(info));
  }

  /// True for the matrices llama.cpp quantizes, except a few it leaves alone in small models.
  static bool is_matrix(const Info& info) {
    const auto has = [&](const char* part) { return info.name.find(part) != std::string::npos; };
    return info.sizes.size() >= 2 && info.sizes[0] % kBlock == 0 && info.name.ends_with(".weight") &&
           !has("norm") && !has("conv1d") && !has("ffn_gate_inp") && !has("time_mix");
  }

  /// Writes blocks of 32 with a power of two as scale, so that both files have bitwise identical values.
  void add_matrix(std::string& out, const float* values, std::size_t count, bool quantized) const {
    for (std::size_t first = 0; first < count; first += kBlock) {
      float largest = 0;
      for (std::size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(values[first + i]));
      int exponent = -14;  // smallest normal exponent of f16
      while (std::ldexp(127.0F, exponent) < largest) ++exponent;
      if (quantized) append(out, static_cast<std::uint16_t>((exponent + 15) << 10));
      for (std::size_t i = 0; i < kBlock; ++i) {
        const auto whole = static_cast<std::int8_t>(std::lround(std::ldexp(values[first + i], -exponent)));
        if (quantized) {
          append(out, whole);
        } else {
          append(out, std::ldexp(static_cast<float>(whole), exponent));
        }
      }
    }
  }

  template <class T>
  static void append(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  static void pad(std::string& out) { out.resize((out.size() + kAlignment - 1) / kAlignment * kAlignment); }

  std::string copy(bool quantized) const {
    std::string data;
    std::string out = head_;
    for (const Info& info : infos_) {
      pad(data);
      append(out, static_cast<std::uint64_t>(info.name.size()));
      out += info.name;
      append(out, static_cast<std::uint32_t>(info.sizes.size()));
      for (const std::uint64_t size : info.sizes) append(out, size);
      append(out, quantized && is_matrix(info) ? kQ8_0 : kF32);
      append(out, static_cast<std::uint64_t>(data.size()));
      std::vector<float> values(info.elements());
      std::memcpy(values.data(), bytes_.data() + info.offset, values.size() * sizeof(float));
      if (is_matrix(info)) {
        add_matrix(data, values.data(), values.size(), quantized);
      } else {
        data.append(bytes_, info.offset, values.size() * sizeof(float));
      }
    }
    pad(out);
    return out + data;
  }

  std::string bytes_;
  std::size_t at_ = 0;
  std::string head_;  // header, up to the tensors
  std::vector<Info> infos_;
};

}  // namespace reprise::models::test
