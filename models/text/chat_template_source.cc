#include "models/text/chat_template_source.h"

#include "models/files/gguf.h"
#include "models/files/json_location.h"
#include "models/files/load_error.h"
#include "models/files/mapped_file.h"

namespace reprise::models {

namespace {

std::string checked(std::string text, const std::string& file) {
  if (text.size() > kMaxTemplateBytes) throw LoadError(file, "chat template", "is longer than 4 MiB");
  return text;
}

std::string read_text(const std::filesystem::path& file) {
  if (std::filesystem::file_size(file) == 0) return {};
  const MappedFile mapped = MappedFile::open(file);
  const auto* bytes = reinterpret_cast<const char*>(mapped.bytes().data());
  return checked(std::string(bytes, mapped.bytes().size()), file.string());
}

/// Reads "chat_template": a string, or a list of {"name": ..., "template": ...}.
std::optional<std::string> from_member(const JsonLocation& holder) {
  const std::optional<JsonLocation> member = holder.find("chat_template");
  if (!member) return std::nullopt;
  if (member->is(JsonLocation::Kind::kString)) return checked(member->text(), holder.file());
  if (!member->is(JsonLocation::Kind::kArray)) member->fail("expected a string or a list of named templates");
  for (std::size_t i = 0; i < member->size(); ++i) {
    const JsonLocation named = member->at(i);
    if (named.at("name").text() == "default") return checked(named.at("template").text(), holder.file());
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> load_chat_template(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw LoadError(path.string(), "", "no such file or folder");
  if (!std::filesystem::is_directory(path, error)) {
    const Gguf file = Gguf::open(path);
    if (file.metadata().find("tokenizer.chat_template") == nullptr) return std::nullopt;
    return checked(std::string(file.metadata().text("tokenizer.chat_template")), path.string());
  }
  if (std::filesystem::exists(path / "chat_template.jinja", error))
    return read_text(path / "chat_template.jinja");
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    if (!std::filesystem::exists(path / name, error)) continue;
    if (std::optional<std::string> found = from_member(JsonLocation::read(path / name))) return found;
  }
  return std::nullopt;
}

}  // namespace reprise::models
