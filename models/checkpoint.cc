#include "models/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "models/files/json_place.h"
#include "models/files/load_error.h"
#include "models/files/safetensors.h"
#include "traces/trace.h"

namespace reprise::models {
namespace {

constexpr std::uint64_t kChunk = 16u << 20;  // bytes between two reports of progress

// How the tensors of a text model may begin in a Hugging Face file, alone or inside a multimodal one.
constexpr std::string_view kTextPrefixes[] = {"model.language_model.", "language_model.model.", "model.", ""};
// And its head, which stands outside of it.
constexpr std::string_view kHeadPrefixes[] = {"", "language_model.", "model."};

std::string text_prefix(const TensorSource& source, const std::string& embedding, const std::string& folder) {
  for (std::string_view prefix : kTextPrefixes) {
    if (source.find(std::string(prefix) + embedding) != nullptr) return std::string(prefix);
  }
  throw LoadError(folder, embedding, "is missing");
}

// All dimensions but the last.
std::size_t rows_of(const Shape& shape) {
  std::size_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

Shape without_ones(const Shape& shape) {
  Shape out;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(out), [](std::uint64_t d) { return d != 1; });
  return out;
}

// Layer number of "PREFIXn.…"; nothing for another name.
std::optional<std::size_t> layer_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  std::size_t number = 0;
  std::size_t at = prefix.size();
  for (; at < name.size() && name[at] >= '0' && name[at] <= '9' && number < 1'000'000; ++at) {
    number = number * 10 + static_cast<std::size_t>(name[at] - '0');
  }
  if (at == prefix.size() || at == name.size() || name[at] != '.') return std::nullopt;
  return number;
}

// A weight inside a layer that the architecture does not know would silently be left out.
void refuse_strays(const TensorSource& source, const std::set<std::string_view>& known,
                   std::string_view prefix, std::size_t layers) {
  for (const StoredTensor& tensor : source.tensors()) {
    const std::string_view name = tensor.name;
    if (known.contains(name) || !(name.ends_with(".weight") || name.ends_with(".bias"))) continue;
    const std::optional<std::size_t> layer = layer_of(name, prefix);
    if (layer && *layer < layers) {
      throw LoadError(source.path_of(tensor), name, "this architecture has no such tensor");
    }
  }
}

// Whether any number is infinite or not a number: all bits of its exponent are set.
template <class Word>
bool has_nonfinite(std::span<const std::byte> bytes, Word exponent) {
  Word found = 0;
  for (std::size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof(Word));
    found |= static_cast<Word>((word & exponent) == exponent);
  }
  return found != 0;
}

bool has_nonfinite(DType type, std::span<const std::byte> bytes) {
  switch (type) {
    case DType::kF32:
      return has_nonfinite<std::uint32_t>(bytes, 0x7f800000u);
    case DType::kBF16:
      return has_nonfinite<std::uint16_t>(bytes, 0x7f80u);
    case DType::kF16:
      return has_nonfinite<std::uint16_t>(bytes, 0x7c00u);
    default:
      break;
  }
  // Read all the same, so that the file is in memory afterwards.
  volatile std::byte sink{};
  for (std::size_t i = 0; i < bytes.size(); i += 4096) sink = bytes[i];
  static_cast<void>(sink);
  return false;
}

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& path, std::span<const Family> known) {
  static constexpr traces::ZoneSite kSite{"open checkpoint"};
  traces::Zone zone(kSite);
  if (zone.on()) zone.text(path.string());
  Checkpoint out;
  out.path_ = path.string();
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    out.gguf_ = Gguf::open(path);
    out.config_ = ModelConfig::from_gguf(*out.gguf_, known);
    out.bind([](const TensorSpec& spec) { return spec.gguf; }, "blk.");
    return out;
  }
  const JsonPlace config = JsonPlace::read(path / "config.json");
  std::optional<JsonPlace> generation;
  if (std::filesystem::exists(path / "generation_config.json", ignored)) {
    generation = JsonPlace::read(path / "generation_config.json");
  }
  out.config_ = ModelConfig::from_hf(config, generation ? &*generation : nullptr, known);
  out.safetensors_ = open_safetensors_folder(path);
  const std::string prefix = text_prefix(out.safetensors_, out.config_.embedding + ".weight", out.path_);
  const auto place = [&](const TensorSpec& spec) {
    StoredAs stored = spec.hf;
    if (spec.name == out.config_.head + ".weight" && !out.config_.tied()) {
      for (const std::string_view before : kHeadPrefixes)
        stored.names.push_back(std::string(before) + spec.name);
      return stored;
    }
    if (stored.names.empty()) stored.names = {spec.name};
    for (std::string& name : stored.names) name.insert(0, prefix);
    return stored;
  };
  out.bind(place, prefix + "layers.");
  return out;
}

Checkpoint::Entry Checkpoint::entry_of(const TensorSpec& spec, const StoredAs& place) const {
  const StoredTensor* stored = nullptr;
  for (std::size_t i = 0; i < place.names.size() && stored == nullptr; ++i) {
    stored = source().find(place.names[i]);
  }
  if (stored == nullptr) throw LoadError(path_, place.names.front(), "is missing");
  const Shape& wanted = place.piece ? place.piece->of : spec.shape;
  // GGUF drops dimensions of 1; leaving them out changes no byte.
  const bool same = stored->shape == wanted || (gguf_ && without_ones(stored->shape) == without_ones(wanted));
  if (!same) {
    throw LoadError(source().path_of(*stored), stored->name,
                    "expected shape " + to_string(wanted) + ", found " + to_string(stored->shape));
  }
  std::span<const std::byte> bytes = stored->bytes;
  if (place.piece) {
    const std::size_t rows = rows_of(wanted);
    const std::size_t row_bytes = bytes.size() / rows;
    REPRISE_CHECK(wanted.back() == spec.shape.back() && place.piece->first_row + rows_of(spec.shape) <= rows,
                  "a piece that is not in its tensor");
    bytes = bytes.subspan(place.piece->first_row * row_bytes, rows_of(spec.shape) * row_bytes);
  }
  return {spec, stored, bytes, place.layout};
}

void Checkpoint::bind(const Place& place, std::string_view layer_prefix) {
  std::set<std::string_view> known;
  entries_.reserve(config_.tensors.size());
  for (const TensorSpec& spec : config_.tensors) {
    entries_.push_back(entry_of(spec, place(spec)));
    known.insert(entries_.back().stored->name);
    total_bytes_ += entries_.back().bytes.size();
  }
  refuse_strays(source(), known, layer_prefix, config_.layers.size());
  names_.reserve(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    names_.push_back(entries_[i].spec.name);
    index_.emplace(names_.back(), i);
  }
}

const Checkpoint::Entry* Checkpoint::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

const Checkpoint::Entry& Checkpoint::at(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) throw LoadError(path_, name, "the model has no such tensor");
  return *entry;
}

Tensor Checkpoint::tensor(std::string_view name) const {
  const Entry& entry = at(name);
  const StoredTensor& stored = *entry.stored;
  const std::string& file = source().path_of(stored);
  const gpu::WeightFormat* format = format_of(stored.type);
  if (format == nullptr) {
    throw LoadError(file, stored.name,
                    "the type " + std::string(info(stored.type).name) + " cannot be computed with");
  }
  source().files()[stored.file].check_not_shrunk();

  Tensor out{std::string(name), stored.type, entry.spec.shape, entry.bytes, nullptr};
  const bool as_is = entry.layout.is_identity();
  const auto address = reinterpret_cast<std::uintptr_t>(entry.bytes.data());
  if (as_is && address % format->alignment == 0) return out;
  try {
    // A file may place a tensor where its type cannot be read in place: then it is copied, too.
    UndoneTensor undone = undo(entry.layout, stored.type, out.shape, entry.bytes);
    out.type = undone.type;
    out.bytes = {undone.data.get(), undone.size};
    out.owned = std::move(undone.data);
  } catch (const std::invalid_argument& error) {
    throw LoadError(file, stored.name, error.what());
  }
  return out;
}

void Checkpoint::validate(const LoadProgress& progress) const {
  std::uint64_t done = 0;
  for (const Entry& entry : entries_) {
    const StoredTensor& stored = *entry.stored;
    for (std::size_t at = 0; at < entry.bytes.size(); at += kChunk) {
      source().files()[stored.file].check_not_shrunk();
      const std::span<const std::byte> chunk =
          entry.bytes.subspan(at, std::min<std::size_t>(kChunk, entry.bytes.size() - at));
      if (has_nonfinite(stored.type, chunk)) {
        throw LoadError(source().path_of(stored), stored.name,
                        "has a weight that is infinite or not a number");
      }
      done += chunk.size();
      if (progress) progress(done, total_bytes_);
    }
  }
}

}  // namespace reprise::models
