#include "models/text/tokenizer_load.h"

#include <optional>

#include "models/files/gguf.h"
#include "models/files/json_location.h"
#include "models/files/load_error.h"
#include "models/files/mapped_file.h"
#include "models/text/sentencepiece_file.h"
#include "models/text/tokenizer_gguf.h"
#include "models/text/tokenizer_json.h"

namespace reprise::models {

Tokenizer load_tokenizer(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw LoadError(path.string(), "", "no such file or folder");
  if (!std::filesystem::is_directory(path, error)) {
    return Tokenizer(spec_of_gguf(Gguf::open(path).metadata()));
  }
  std::optional<JsonLocation> config;
  const std::filesystem::path config_file = path / "tokenizer_config.json";
  if (std::filesystem::exists(config_file, error)) config = JsonLocation::read(config_file);
  const std::filesystem::path file = path / "tokenizer.json";
  if (std::filesystem::exists(file, error)) return Tokenizer(spec_of_json(JsonLocation::read(file), config));
  const std::filesystem::path pieces = path / "tokenizer.model";
  if (!std::filesystem::exists(pieces, error)) {
    throw LoadError(path.string(), "tokenizer.json", "the folder has neither this file nor tokenizer.model");
  }
  const MappedFile mapped = MappedFile::open(pieces);
  const std::span<const std::byte> bytes = mapped.bytes();
  return Tokenizer(spec_of_sentencepiece({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                         pieces.string(), config));
}

}  // namespace reprise::models
