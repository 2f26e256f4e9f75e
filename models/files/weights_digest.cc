#include "models/files/weights_digest.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/digest.h"
#include "base/in_parallel.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

constexpr std::size_t kDigestChunk = 4u << 20;  // bytes; changing it changes the digests
constexpr std::string_view kTitle = "reprise weights 1";

std::span<const std::byte> chunk_of(std::span<const std::byte> bytes, std::size_t i) {
  return bytes.subspan(i * kDigestChunk, std::min(kDigestChunk, bytes.size() - i * kDigestChunk));
}

std::size_t chunks_of(std::span<const std::byte> bytes) {
  return (bytes.size() + kDigestChunk - 1) / kDigestChunk;
}

std::vector<std::uint64_t> digest_chunks(const std::vector<StoredTensor>& tensors) {
  std::vector<std::span<const std::byte>> chunks;
  for (const StoredTensor& tensor : tensors) {
    for (std::size_t i = 0; i < chunks_of(tensor.bytes); ++i) chunks.push_back(chunk_of(tensor.bytes, i));
  }
  std::vector<std::uint64_t> digests(chunks.size());
  in_parallel(chunks.size(), [&](std::size_t i) { digests[i] = digest_of(chunks[i]); });
  return digests;
}

std::uint64_t read_all(const TensorSource& source) {
  const std::vector<std::uint64_t> chunks = digest_chunks(source.tensors());
  Digest digest;
  auto next = chunks.begin();
  for (const StoredTensor& tensor : source.tensors()) {
    digest.add(tensor.name).add(info(tensor.type).name).add(std::uint64_t{tensor.shape.size()});
    for (const std::uint64_t size : tensor.shape) digest.add(size);
    for (std::size_t i = 0; i < chunks_of(tensor.bytes); ++i) digest.add(*next++);
  }
  return digest.value();
}

/// Identifies the files without reading them: one line each.
std::string files_now(const TensorSource& source) {
  std::ostringstream out;
  for (const MappedFile& file : source.files()) {
    std::error_code error;
    const std::filesystem::path path(file.path());
    const auto changed = std::filesystem::last_write_time(path, error);
    if (error) throw LoadError(file.path(), "", "cannot be read: " + error.message());
    out << path.filename().string() << ' ' << file.bytes().size() << ' ' << changed.time_since_epoch().count()
        << '\n';
  }
  return out.str();
}

std::optional<std::uint64_t> kept_digest(const std::filesystem::path& path, const std::string& files) {
  std::ifstream in(path, std::ios::binary);
  std::string title, digest;
  if (!std::getline(in, title) || title != kTitle || !std::getline(in, digest)) return std::nullopt;
  std::ostringstream rest;
  rest << in.rdbuf();
  if (rest.str() != files) return std::nullopt;
  std::istringstream number(digest);
  std::uint64_t value = 0;
  if (!(number >> std::hex >> value) || !(number >> std::ws).eof()) return std::nullopt;
  return value;
}

/// Writes a temporary file and renames it, so that readers never see a partial one.
void keep_digest(const std::filesystem::path& path, const std::string& files, std::uint64_t digest) {
  const std::filesystem::path draft = path.string() + ".new";
  std::error_code error;
  {
    std::ofstream out(draft, std::ios::binary | std::ios::trunc);
    out << kTitle << '\n' << std::hex << digest << '\n' << files;
    if (!out.flush()) {
      std::filesystem::remove(draft, error);
      return;
    }
  }
  std::filesystem::rename(draft, path, error);
  if (error) std::filesystem::remove(draft, error);
}

}  // namespace

std::filesystem::path digest_file(const std::filesystem::path& model_path) {
  if (std::filesystem::is_directory(model_path)) return model_path / "weights.digest";
  return model_path.string() + ".digest";
}

std::uint64_t weights_digest(const TensorSource& source, const std::filesystem::path& model_path,
                             std::uint64_t kept_from) {
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : source.tensors()) bytes += tensor.bytes.size();
  if (bytes < kept_from) return read_all(source);
  const std::filesystem::path path = digest_file(model_path);
  const std::string files = files_now(source);
  if (const auto kept = kept_digest(path, files)) return *kept;
  const std::uint64_t digest = read_all(source);
  keep_digest(path, files, digest);
  return digest;
}

}  // namespace reprise::models
