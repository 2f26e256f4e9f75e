#include "tools/reprise/hub.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "tools/reprise/curl_handle.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/progress.h"

namespace reprise::tools {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxHubPathLength = 255;
constexpr std::size_t kMaxListed = 40;

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

/// Returns "a" for its part "a-00002-of-00003.gguf"; other paths unchanged.
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
  for (std::size_t i = 0; i < std::min(files.size(), kMaxListed); ++i) {
    text += (i == 0 ? "" : ", ") + files[i].path;
  }
  return files.size() > kMaxListed ? text + " ..." : text;
}

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
    throw UsageError("'" + std::string(text.substr(0, kMaxHubPathLength)) +
                     "' is not OWNER/MODEL or OWNER/MODEL:FILE");
  }
  return name;
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxHubPathLength) return false;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (!is_hub_word(path.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

std::vector<HubFile> wanted_files(const std::vector<HubFile>& all, const HubName& name) {
  const std::string model = name.owner + "/" + name.model;
  std::map<std::string, std::vector<HubFile>> ggufs;  // parts by the name of the whole
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

// -- the transfer

namespace {

constexpr std::chrono::milliseconds kFirstPause{200};

/// A file being written, locked against other processes.
class PartFile {
 public:
  explicit PartFile(const fs::path& path)
      : path_(path), file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (file_ < 0) throw std::runtime_error(path.string() + ": " + std::strerror(errno));
    if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      close(file_);
      throw std::runtime_error(path.string() + ": another program is pulling it");
    }
  }
  ~PartFile() { close(file_); }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  std::uint64_t size() const { return static_cast<std::uint64_t>(lseek(file_, 0, SEEK_END)); }
  void cut(std::uint64_t bytes) {
    if (ftruncate(file_, static_cast<off_t>(bytes)) != 0) fail();
  }
  void append(std::string_view bytes) {
    lseek(file_, 0, SEEK_END);
    while (!bytes.empty()) {
      const ssize_t count = write(file_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  std::string sha256() const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> sum(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
    if (!sum || EVP_DigestInit_ex(sum.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
    lseek(file_, 0, SEEK_SET);
    std::vector<char> bytes(std::size_t{1} << 20);
    for (ssize_t count = 1; count > 0;) {
      count = read(file_, bytes.data(), bytes.size());
      if (count < 0) fail();
      EVP_DigestUpdate(sum.get(), bytes.data(), static_cast<std::size_t>(count));
    }
    unsigned char value[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    EVP_DigestFinal_ex(sum.get(), value, &length);
    std::string text;
    for (unsigned i = 0; i < length; ++i) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += kDigits[value[i] >> 4];
      text += kDigits[value[i] & 15];
    }
    return text;
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(path_.string() + ": " + std::strerror(errno)); }

  const fs::path path_;
  const int file_;
};

void pause_before(unsigned next_try) {
  std::this_thread::sleep_for(kFirstPause * (1 << std::min(next_try, 8U)));
}

bool may_pass(long status) {
  return status == 429 || status >= 500;
}

class HubTransfer {
 public:
  /// `settings` must outlive it.
  explicit HubTransfer(const HubSettings& settings) : settings_(settings) {}

  /// Returns the response to GET `path`. Throws std::runtime_error, with advice if a token may help.
  std::string text(const std::string& path, std::size_t max_bytes);
  /// Downloads to `target` unless it exists; `label` is for the progress bar. Throws std::runtime_error.
  void file(const std::string& path, const HubFile& what, const std::filesystem::path& target,
            const std::string& label);

 private:
  struct Fetched {
    long status = 0;
    std::string problem{};  // connection error; empty: the response is complete
  };
  /// One attempt. `take` receives the status and the data; it returns false to stop.
  template <class Take>
  Fetched fetch(const std::string& path, std::uint64_t begin, Take take);
  std::string refusal(const std::string& path, long status) const;

  const HubSettings& settings_;
};

template <class Take>
HubTransfer::Fetched HubTransfer::fetch(const std::string& path, std::uint64_t begin, Take take) {
  const CurlHandle handle = make_curl();
  CURL* curl = handle.get();
  CurlHeaders headers;
  const std::string url = settings_.endpoint + path;
  if (!settings_.token.empty()) headers.add("Authorization: Bearer " + settings_.token);
  if (begin > 0) headers.add("Range: bytes=" + std::to_string(begin) + "-");
  struct Call {
    CURL* curl;
    Take& take;
    std::exception_ptr error{};
    static std::size_t written(char* bytes, std::size_t, std::size_t count, void* self) {
      auto& call = *static_cast<Call*>(self);
      long status = 0;
      curl_easy_getinfo(call.curl, CURLINFO_RESPONSE_CODE, &status);
      try {
        return call.take(status, std::string_view(bytes, count)) ? count : 0;
      } catch (...) {
        call.error = std::current_exception();
        return 0;
      }
    }
  } call{curl, take};
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Call::written);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &call);
  const CURLcode went = curl_easy_perform(curl);
  if (call.error) std::rethrow_exception(call.error);
  Fetched fetched;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &fetched.status);
  if (went != CURLE_OK) fetched.problem = curl_easy_strerror(went);
  return fetched;
}

std::string HubTransfer::refusal(const std::string& path, long status) const {
  std::string text =
      settings_.endpoint + path.substr(0, path.find('?')) + ": status " + std::to_string(status);
  if (status == 401 || status == 403) {
    text += settings_.token.empty() ? "; the model does not exist, or needs a token in HF_TOKEN"
                                    : "; the token in HF_TOKEN gives no access to it";
  } else if (status == 404) {
    text += "; there is no such model or file";
  }
  return text;
}

std::string HubTransfer::text(const std::string& path, std::size_t max_bytes) {
  for (unsigned tries = 1;; ++tries) {
    std::string body;
    bool fits = true;
    const Fetched fetched = fetch(path, 0, [&](long, std::string_view bytes) {
      body += bytes;
      return fits = body.size() <= max_bytes;
    });
    if (!fits) throw std::runtime_error(settings_.endpoint + path + ": the answer is too long");
    if (fetched.problem.empty() && fetched.status == 200) return body;
    if (fetched.problem.empty() && !may_pass(fetched.status)) {
      throw std::runtime_error(refusal(path, fetched.status));
    }
    if (tries >= settings_.tries) {
      throw std::runtime_error(fetched.problem.empty() ? refusal(path, fetched.status)
                                                       : settings_.endpoint + ": " + fetched.problem);
    }
    pause_before(tries);
  }
}

void HubTransfer::file(const std::string& path, const HubFile& what, const fs::path& target,
                       const std::string& label) {
  std::error_code unknown;
  if (fs::file_size(target, unknown) == what.bytes && !unknown) return;
  fs::create_directories(target.parent_path());
  const fs::path part_path = target.string() + ".part";
  PartFile part(part_path);
  ProgressBar bar(label.c_str());
  if (part.size() > what.bytes) part.cut(0);
  for (unsigned tries = 0; part.size() < what.bytes;) {
    const std::uint64_t begin = part.size();
    bool begun = false;
    bool too_long = false;
    const Fetched fetched = fetch(path, begin, [&](long status, std::string_view bytes) {
      if (status != 200 && status != 206) return true;  // discard the body of an error
      if (!begun && status == 200) part.cut(0);         // the server sends the whole file
      begun = true;
      too_long = part.size() + bytes.size() > what.bytes;
      if (too_long) return false;
      part.append(bytes);
      bar.show(part.size(), what.bytes);
      return true;
    });
    if (too_long) {
      part.cut(0);
      throw std::runtime_error(what.path + ": is longer than the hub's list says");
    }
    if (fetched.status == 416) part.cut(0);  // the partial file does not match
    const bool good = fetched.status == 200 || fetched.status == 206 || fetched.status == 416;
    if (fetched.problem.empty() && !good && !may_pass(fetched.status)) {
      throw std::runtime_error(refusal(path, fetched.status));
    }
    if (part.size() > begin) tries = 0;  // progress was made
    if (part.size() >= what.bytes) break;
    if (++tries >= settings_.tries) {
      throw std::runtime_error(what.path + ": the connection ended at " + std::to_string(part.size()) +
                               " of " + std::to_string(what.bytes) + " bytes: " +
                               (fetched.problem.empty() ? refusal(path, fetched.status) : fetched.problem) +
                               "; the next pull continues from there");
    }
    pause_before(tries);
  }
  if (!what.sha256.empty() && part.sha256() != what.sha256) {
    part.cut(0);
    throw std::runtime_error(what.path + ": its checksum is not the hub's; the download was discarded");
  }
  fs::rename(part_path, target);
}

// -- model folders

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

/// File that stores the result of a pull, so that later pulls need no request.
fs::path note_of(const fs::path& folder, const HubName& name) {
  return folder / (".pulled-" + (name.file.empty() ? "all" : name.file.substr(name.file.rfind('/') + 1)));
}

/// Returns the path of an earlier pull if all its files still exist; otherwise empty.
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

/// Suffix of the folder of a revision other than main.
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
  auto parsed = Json::parse(body, {.bytes = kMaxListBytes, .depth = 16});
  if (!parsed.ok() || !parsed->is_array())
    throw std::runtime_error(model + ": the hub's answer is not a list of files");
  if (parsed->size() > kMaxHubFiles) throw std::runtime_error(model + ": the model has too many files");
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
      wanted_files(read_hub_list(transfer.text(list, kMaxListBytes), model), name);
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
