#include "actors/served/without_folders.h"

#include <filesystem>

namespace reprise::actors {
namespace {

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  if (what.empty()) return;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

}  // namespace

std::string without_folders(std::string text, const std::string& path) {
  std::error_code unknown;
  for (std::filesystem::path one : {std::filesystem::path(path), std::filesystem::canonical(path, unknown)}) {
    if (!one.has_filename()) one = one.parent_path();  // "folder/"
    const std::string folder = one.parent_path().string();
    replace_all(text, one.string(), one.filename().string());
    if (folder.size() > 1) replace_all(text, folder + "/", "");  // files beside it
  }
  return text;
}

}  // namespace reprise::actors
