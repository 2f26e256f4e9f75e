#include "tools/reprise/hub.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/json.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/hub_transfer.h"

namespace reprise::tools {
namespace {

namespace fs = std::filesystem;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

/// Where a pull has written what it came to, so that the next one need not ask.
fs::path note_of(const fs::path& folder, const HubName& name) {
  return folder / (".pulled-" + (name.file.empty() ? "all" : name.file.substr(name.file.rfind('/') + 1)));
}

/// What an earlier pull came to, if it is all still there.
fs::path pulled_before(const fs::path& folder, const HubName& name) {
  std::ifstream note(note_of(folder, name));
  std::string line;
  fs::path result;
  while (std::getline(note, line)) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || !is_safe_path(line.substr(space + 1))) return {};
    const fs::path file = folder / line.substr(space + 1);
    std::error_code unknown;
    const auto bytes = fs::file_size(file, unknown);
    if (unknown || std::to_string(bytes) != line.substr(0, space)) return {};
    if (result.empty()) result = file;
  }
  if (result.empty()) return {};
  return result.extension() == ".gguf" || !name.file.empty() ? result : folder;
}

void write_note(const fs::path& folder, const HubName& name, const std::vector<HubFile>& files) {
  std::ofstream note(note_of(folder, name), std::ios::trunc);
  for (const HubFile& file : files) note << file.bytes << ' ' << file.path << '\n';
}

std::uint64_t count_of(const Json& object, const char* name) {
  const Json* value = object.find(name);
  return value != nullptr && value->is_int() && value->as_int() > 0
             ? static_cast<std::uint64_t>(value->as_int())
             : 0;
}

/// Other revisions than the usual one lie beside it.
std::string revision_mark(std::string revision) {
  if (revision == "main") return {};
  std::replace(revision.begin(), revision.end(), '/', '-');
  return "@" + revision;
}

void check_room(const fs::path& folder, const std::vector<HubFile>& files) {
  std::uint64_t wanted = 0;
  for (const HubFile& file : files) {
    std::error_code unknown;
    const auto there = fs::file_size(folder / (file.path + ".part"), unknown);
    const auto whole = fs::exists(folder / file.path, unknown);
    if (!whole) wanted += file.bytes - std::min<std::uint64_t>(file.bytes, there == UINTMAX_MAX ? 0 : there);
  }
  std::error_code unknown;
  const fs::space_info space = fs::space(folder, unknown);
  if (!unknown && space.available < wanted) {
    throw std::runtime_error(folder.string() + ": " + std::to_string(wanted >> 20) +
                             " MiB are to be downloaded, but only " + std::to_string(space.available >> 20) +
                             " MiB are free");
  }
}

}  // namespace

HubSettings hub_settings() {
  HubSettings settings;
  if (const std::string endpoint = from_environment("HF_ENDPOINT"); !endpoint.empty())
    settings.endpoint = endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  settings.token = from_environment("HF_TOKEN");
  if (settings.token.find_first_of("\r\n") != std::string::npos)
    throw UsageError("HF_TOKEN: has a line break");
  settings.folder = from_environment("REPRISE_MODELS");
  const std::string cache = from_environment("XDG_CACHE_HOME");
  const std::string home = from_environment("HOME");
  if (settings.folder.empty() && !cache.empty()) settings.folder = fs::path(cache) / "reprise" / "models";
  if (settings.folder.empty() && !home.empty())
    settings.folder = fs::path(home) / ".cache" / "reprise" / "models";
  if (settings.folder.empty())
    throw UsageError("REPRISE_MODELS: must name a folder, because HOME is not set");
  return settings;
}

std::vector<HubFile> read_hub_list(const std::string& body, const std::string& model) {
  auto parsed = Json::parse(body, {.bytes = kMostListBytes, .depth = 16});
  if (!parsed.ok() || !parsed->is_array())
    throw std::runtime_error(model + ": the hub's answer is not a list of files");
  if (parsed->size() > kMostHubFiles) throw std::runtime_error(model + ": the model has too many files");
  std::vector<HubFile> files;
  for (const Json& item : parsed->as_array()) {
    const std::string* type = item.is_object() ? item.find_string("type") : nullptr;
    const std::string* path = item.is_object() ? item.find_string("path") : nullptr;
    if (type == nullptr || path == nullptr || *type != "file" || !is_safe_path(*path)) continue;
    HubFile file{.path = *path, .bytes = count_of(item, "size")};
    if (const Json* large = item.find_object("lfs")) {
      const std::string* sum = large->find_string("oid");
      if (sum != nullptr && sum->size() == 64) file.sha256 = *sum;
      file.bytes = count_of(*large, "size");
    }
    files.push_back(std::move(file));
  }
  return files;
}

fs::path pull(const HubSettings& settings, const HubName& name) {
  const fs::path folder = settings.folder / name.owner / (name.model + revision_mark(settings.revision));
  if (fs::path there = pulled_before(folder, name); !there.empty()) return there;
  const std::string model = name.owner + "/" + name.model;
  HubTransfer transfer(settings);
  const std::string list = "/api/models/" + model + "/tree/" + settings.revision + "?recursive=true";
  const std::vector<HubFile> files =
      wanted_files(read_hub_list(transfer.text(list, kMostListBytes), model), name);
  fs::create_directories(folder);
  check_room(folder, files);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string label =
        files[i].path + " (" + std::to_string(i + 1) + " of " + std::to_string(files.size()) + ")";
    transfer.file("/" + model + "/resolve/" + settings.revision + "/" + files[i].path, files[i],
                  folder / files[i].path, label);
  }
  write_note(folder, name, files);
  const fs::path there = pulled_before(folder, name);
  if (there.empty()) throw std::runtime_error(folder.string() + ": the pulled model is no longer there");
  return there;
}

}  // namespace reprise::tools
