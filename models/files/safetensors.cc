#include "models/files/safetensors.h"

#include <cstring>
#include <map>
#include <system_error>
#include <utility>

#include "models/files/json_location.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

constexpr std::uint64_t kMaxHeaderLength = 100'000'000;  // the format's own limit
constexpr std::uint64_t kLengthBytes = 8;
constexpr std::size_t kMaxShapeDimensions = 16;

std::uint64_t unsigned_integer(const JsonLocation& json) {
  const std::int64_t value = json.integer();
  if (value < 0) json.fail("is negative");
  return static_cast<std::uint64_t>(value);
}

void add_tensor(const JsonLocation& entry, const std::string& name, std::uint64_t data_offset,
                std::size_t file, TensorSource& source) {
  const JsonLocation dtype = entry.at("dtype");
  const std::optional<DType> type = dtype_of_safetensors(dtype.text());
  if (!type) dtype.fail("unknown type " + dtype.text());

  const JsonLocation dimensions = entry.at("shape");
  if (dimensions.size() > kMaxShapeDimensions) dimensions.fail("has too many dimensions");
  Shape shape;
  for (std::size_t i = 0; i < dimensions.size(); ++i) shape.push_back(unsigned_integer(dimensions.at(i)));

  const JsonLocation offsets = entry.at("data_offsets");
  if (offsets.size() != 2) offsets.fail("expected [begin, end]");
  const std::uint64_t begin = unsigned_integer(offsets.at(0));
  const std::uint64_t end = unsigned_integer(offsets.at(1));
  if (end < begin) offsets.fail("the end lies before the beginning");

  const std::optional<std::uint64_t> size = byte_size(*type, shape);
  if (!size || *size != end - begin) {
    offsets.fail("has " + std::to_string(end - begin) + " bytes where " + to_string(shape) + " of " +
                 dtype.text() + " takes " + (size ? std::to_string(*size) : "no possible number"));
  }
  // Both are below 2^63, so the sum cannot wrap.
  source.add_tensor(name, *type, std::move(shape), file, data_offset + begin);
}

// Maps one file and adds its tensors.
void load_tensors_of(const std::filesystem::path& path, TensorSource& source) {
  const std::size_t index = source.add_file(MappedFile::open(path));
  const MappedFile& file = source.files()[index];
  std::uint64_t length = 0;
  std::memcpy(&length, file.bytes(0, kLengthBytes, "header").data(), sizeof length);
  if (length > kMaxHeaderLength) {
    throw LoadError(file.path(), "header", "claims " + std::to_string(length) + " bytes");
  }
  const std::span<const std::byte> text = file.bytes(kLengthBytes, length, "header");

  JsonLimits limits = kFileJson;
  limits.bytes = kMaxHeaderLength;
  limits.depth = 8;
  const JsonLocation header =
      JsonLocation::parse({reinterpret_cast<const char*>(text.data()), text.size()}, file.path(), limits);
  if (!header.is(JsonLocation::Kind::kObject)) header.fail("the header is not a JSON object");
  for (std::size_t i = 0; i < header.size(); ++i) {
    const std::string& name = header.key_at(i);
    if (name != "__metadata__") add_tensor(header.value_at(i), name, kLengthBytes + length, index, source);
  }
}

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name.find("..") == name.npos &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

}  // namespace

TensorSource open_safetensors(const std::filesystem::path& path) {
  TensorSource source;
  load_tensors_of(path, source);
  source.check_no_overlap();
  return source;
}

TensorSource open_safetensors_index(const std::filesystem::path& index) {
  const JsonLocation map = JsonLocation::read(index).at("weight_map");
  TensorSource source;
  std::map<std::string, std::size_t> shards;  // file name -> index in the source
  for (std::size_t i = 0; i < map.size(); ++i) {
    const JsonLocation entry = map.value_at(i);
    const std::string& shard = entry.text();
    if (!is_plain_file_name(shard)) entry.fail("'" + shard + "' is not the name of a file beside the index");
    if (shards.try_emplace(shard, shards.size()).second) load_tensors_of(index.parent_path() / shard, source);
  }
  if (shards.empty()) map.fail("names no tensors");
  for (std::size_t i = 0; i < map.size(); ++i) {
    const JsonLocation entry = map.value_at(i);
    const StoredTensor* tensor = source.find(map.key_at(i));
    if (tensor == nullptr || tensor->file != shards.at(entry.text())) {
      entry.fail("there is no such tensor in " + entry.text());
    }
  }
  source.check_no_overlap();
  return source;
}

TensorSource open_safetensors_folder(const std::filesystem::path& folder) {
  std::error_code ignored;  // an inaccessible file is reported when it is opened
  const std::filesystem::path single = folder / "model.safetensors";
  if (std::filesystem::exists(single, ignored)) return open_safetensors(single);
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  if (std::filesystem::exists(index, ignored)) return open_safetensors_index(index);
  throw LoadError(folder.string(), "", "has neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace reprise::models
