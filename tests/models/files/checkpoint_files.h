#pragma once
// Writers of model files: just enough to make valid files and then break them.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/temp_dir.h"

namespace reprise::models::test {

using reprise::test::TempDir;

/// Little-endian bytes of a value.
template <class T>
std::string raw(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

inline std::string raw_f32(const std::vector<float>& values) {
  std::string out(values.size() * 4, '\0');
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

/// Requires: values representable in BF16.
inline std::string raw_bf16(const std::vector<float>& values) {
  std::string out;
  for (float value : values)
    out += raw(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  return out;
}

/// Writes a safetensors file. A tensor's fields may be set to invalid values.
class SafetensorsWriter {
 public:
  void tensor(std::string_view name, std::string_view dtype, const std::vector<std::uint64_t>& shape,
              std::string_view bytes) {
    std::string dims;
    for (std::uint64_t d : shape) dims.append(dims.empty() ? "" : ",").append(std::to_string(d));
    entry(name, dtype, dims, data_.size(), data_.size() + bytes.size());
    data_ += bytes;
  }

  void entry(std::string_view name, std::string_view dtype, std::string_view shape, std::uint64_t begin,
             std::uint64_t end) {
    if (!header_.empty()) header_ += ",";
    header_.append("\"").append(name).append("\":{\"dtype\":\"").append(dtype).append("\",\"shape\":[");
    header_.append(shape).append("],\"data_offsets\":[").append(std::to_string(begin)).append(",");
    header_.append(std::to_string(end)).append("]}");
  }

  std::string bytes() const {
    std::string header =
        "{\"__metadata__\":{\"format\":\"pt\"}" + (header_.empty() ? "" : "," + header_) + "}";
    while (header.size() % 8 != 0) header += ' ';
    return raw(std::uint64_t{header.size()}) + header + data_;
  }

 private:
  std::string header_;
  std::string data_;
};

class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;

  static std::string string(std::string_view text) {
    return raw(std::uint64_t{text.size()}) + std::string(text);
  }

  /// `value`: the bytes after the type.
  void key(std::string_view name, std::uint32_t type, std::string_view value) {
    keys_ += string(name) + raw(type) + std::string(value);
    ++key_count_;
  }
  void u32(std::string_view name, std::uint32_t value) { key(name, 4, raw(value)); }
  void f32(std::string_view name, float value) { key(name, 6, raw(value)); }
  void boolean(std::string_view name, bool value) { key(name, 7, raw(static_cast<std::uint8_t>(value))); }
  void text(std::string_view name, std::string_view value) { key(name, 8, string(value)); }

  /// `elements`: their concatenated bytes.
  void array(std::string_view name, std::uint32_t type, std::uint64_t count, std::string_view elements) {
    key(name, 9, raw(type) + raw(count) + std::string(elements));
  }
  void i32s(std::string_view name, const std::vector<std::int32_t>& values) {
    std::string bytes;
    for (std::int32_t value : values) bytes += raw(value);
    array(name, 5, values.size(), bytes);
  }
  void texts(std::string_view name, const std::vector<std::string>& values) {
    std::string bytes;
    for (const std::string& value : values) bytes += string(value);
    array(name, 8, values.size(), bytes);
  }

  /// `shape`: outermost first, the reverse of the file's order.
  void tensor(std::string_view name, std::uint32_t type, const std::vector<std::uint64_t>& shape,
              std::string_view bytes) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    info(name, type, shape, data_.size());
    data_ += bytes;
  }

  /// A tensor description without data.
  void info(std::string_view name, std::uint32_t type, const std::vector<std::uint64_t>& shape,
            std::uint64_t offset) {
    infos_ += string(name) + raw(static_cast<std::uint32_t>(shape.size()));
    for (std::size_t i = shape.size(); i-- > 0;) infos_ += raw(shape[i]);
    infos_ += raw(type) + raw(offset);
    ++tensor_count_;
  }

  std::string bytes() const {
    std::string out = "GGUF" + raw(version) + raw(tensor_count_) + raw(key_count_) + keys_ + infos_;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }

 private:
  std::string keys_;
  std::string infos_;
  std::string data_;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t key_count_ = 0;
};

}  // namespace reprise::models::test
