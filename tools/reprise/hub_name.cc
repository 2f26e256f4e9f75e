#include "tools/reprise/hub_name.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {
namespace {

constexpr std::size_t kLongestHubPath = 255;
constexpr std::size_t kMostListed = 40;

bool is_hub_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' || c == '+';
}

bool is_hub_word(std::string_view word) {
  return !word.empty() && word.front() != '.' && std::all_of(word.begin(), word.end(), is_hub_letter);
}

std::string in_lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_gguf(const HubFile& file) {
  return file.path.ends_with(".gguf");
}

/// "a-00002-of-00003.gguf" is a part of "a"; what is no part is itself.
std::string whole_of(const std::string& path) {
  constexpr std::string_view kPart = "-00000-of-00000.gguf";
  if (path.size() <= kPart.size()) return path;
  const std::string_view end = std::string_view(path).substr(path.size() - kPart.size());
  for (std::size_t i = 0; i < kPart.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(end[i])) != 0;
    if (kPart[i] == '0' ? !digit : end[i] != kPart[i]) return path;
  }
  return path.substr(0, path.size() - kPart.size());
}

std::string list_of(const std::vector<HubFile>& files) {
  std::string text;
  for (std::size_t i = 0; i < std::min(files.size(), kMostListed); ++i) {
    text += (i == 0 ? "" : ", ") + files[i].path;
  }
  return files.size() > kMostListed ? text + " ..." : text;
}

/// What a folder of a checkpoint consists of.
bool belongs_to_folder(const HubFile& file) {
  if (file.path.find('/') != std::string::npos) return false;
  for (const std::string_view end : {".json", ".safetensors", ".jinja", ".model", ".txt"}) {
    if (file.path.ends_with(end)) return true;
  }
  return false;
}

std::vector<HubFile> parts_of(const std::vector<HubFile>& all, const std::string& whole) {
  std::vector<HubFile> parts;
  for (const HubFile& file : all) {
    if (is_gguf(file) && whole_of(file.path) == whole) parts.push_back(file);
  }
  std::sort(parts.begin(), parts.end(), [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  return parts;
}

}  // namespace

HubName parse_hub_name(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with(kHubPrefix)) rest.remove_prefix(kHubPrefix.size());
  const std::size_t slash = rest.find('/');
  const std::size_t colon = std::min(rest.find(':'), rest.size());
  HubName name;
  if (slash < colon) {
    name.owner = rest.substr(0, slash);
    name.model = rest.substr(slash + 1, colon - slash - 1);
    if (colon < rest.size()) name.file = rest.substr(colon + 1);
  }
  const bool has_file = colon < rest.size();
  if (!is_hub_word(name.owner) || !is_hub_word(name.model) || (has_file && !is_safe_path(name.file))) {
    throw UsageError("'" + std::string(text.substr(0, kLongestHubPath)) +
                     "' is not OWNER/MODEL or OWNER/MODEL:FILE");
  }
  return name;
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kLongestHubPath) return false;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (!is_hub_word(path.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

std::vector<HubFile> wanted_files(const std::vector<HubFile>& all, const HubName& name) {
  const std::string model = name.owner + "/" + name.model;
  std::map<std::string, std::vector<HubFile>> ggufs;  // by what they are together
  std::vector<HubFile> folder;
  bool has_weights = false;
  for (const HubFile& file : all) {
    if (is_gguf(file)) ggufs[whole_of(file.path)].push_back(file);
    if (!belongs_to_folder(file)) continue;
    folder.push_back(file);
    has_weights = has_weights || file.path.ends_with(".safetensors");
  }
  if (!name.file.empty()) {
    std::vector<std::string> meant;
    for (const HubFile& file : all) {
      if (file.path == name.file)
        return is_gguf(file) ? parts_of(all, whole_of(file.path)) : std::vector{file};
    }
    for (const auto& [whole, parts] : ggufs) {
      if (in_lower_case(whole).find(in_lower_case(name.file)) != std::string::npos) meant.push_back(whole);
    }
    if (meant.size() == 1) return parts_of(all, meant.front());
    throw UsageError(model + (meant.empty() ? " has no file '" : " has several files '") + name.file +
                     "'; it has " + list_of(all));
  }
  if (has_weights) return folder;
  if (ggufs.size() == 1) return parts_of(all, ggufs.begin()->first);
  std::vector<HubFile> choice;
  for (const auto& [whole, parts] : ggufs) choice.push_back(parts.front());
  if (choice.empty()) throw UsageError(model + " has neither safetensors nor GGUF files");
  throw UsageError(model + " has several GGUF files; name one as OWNER/MODEL:FILE: " + list_of(choice));
}

}  // namespace reprise::tools
