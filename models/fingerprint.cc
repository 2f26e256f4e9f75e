#include "models/fingerprint.h"

#include <algorithm>

#include "base/build_id.h"
#include "base/digest.h"
#include "models/files/weights_digest.h"
#include "models/model.h"
#include "traces/trace.h"

namespace reprise::models {
namespace {

bool has_files(const Model& model) {
  return !model.files().path().empty();
}

/// Digest of the settings in the files: all of config.json, or all of a GGUF file before its tensors. This
/// includes settings that do not affect the bits; changing one of those costs only cache misses.
std::uint64_t digest_of_settings(const ModelFiles& files) {
  if (files.gguf() == nullptr) {
    const MappedFile config = MappedFile::open(std::filesystem::path(files.path()) / "config.json");
    return digest_of(config.bytes());
  }
  const std::span<const std::byte> file = files.source().files().front().bytes();
  const std::byte* end = file.data() + file.size();
  for (const StoredTensor& tensor : files.source().tensors()) {
    if (tensor.file == 0) end = std::min(end, tensor.bytes.data());
  }
  return digest_of(file.first(static_cast<std::size_t>(end - file.data())));
}

void add(Digest& digest, const std::vector<StateLayout::Field>& fields) {
  digest.add(std::uint64_t{fields.size()});
  for (const StateLayout::Field& field : fields) {
    digest.add(field.name).add(std::uint64_t{field.bytes}).add(std::uint64_t{field.offset});
  }
}

std::uint64_t digest_of_model(const Model& model) {
  Digest digest;
  if (has_files(model)) digest.add(digest_of_settings(model.files()));
  add(digest, model.state().per_token());
  add(digest, model.state().per_sequence());
  const ComputeOptions& options = model.options();
  digest.add(static_cast<std::uint64_t>(options.compute)).add(static_cast<std::uint64_t>(options.kv));
  return digest.value();
}

}  // namespace

std::uint64_t Fingerprint::all() const {
  return Digest().add(weights).add(model).add(arithmetic).value();
}

std::uint64_t Fingerprint::identity() const {
  return Digest().add(weights).add(model).value();
}

Fingerprint fingerprint_of(const Model& model) {
  static constexpr traces::ZoneSite kSite{"fingerprint: read every byte of the weights"};
  const traces::Zone zone(kSite);
  return {.weights = has_files(model) ? weights_digest(model.files().source(), model.files().path()) : 0,
          .model = digest_of_model(model),
          .arithmetic = Digest().add(build_id()).add(model.arithmetic()).value()};
}

}  // namespace reprise::models
