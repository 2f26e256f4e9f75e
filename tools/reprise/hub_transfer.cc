#include "tools/reprise/hub_transfer.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tools/reprise/curl_handle.h"
#include "tools/reprise/hub.h"
#include "tools/reprise/progress.h"

namespace reprise::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kFirstPause{200};

/// A file that is being written, which nobody else writes meanwhile.
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
  /// As 64 hex digits.
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

/// A pause before the next try: 0.2 s, 0.4 s, ...
void pause_before(unsigned next_try) {
  std::this_thread::sleep_for(kFirstPause * (1 << std::min(next_try, 8U)));
}

bool may_pass(long status) {
  return status == 429 || status >= 500;
}

}  // namespace

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

std::string HubTransfer::text(const std::string& path, std::size_t most_bytes) {
  for (unsigned tries = 1;; ++tries) {
    std::string body;
    bool fits = true;
    const Fetched fetched = fetch(path, 0, [&](long, std::string_view bytes) {
      body += bytes;
      return fits = body.size() <= most_bytes;
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
      if (status != 200 && status != 206) return true;  // what an error says is not kept
      if (!begun && status == 200) part.cut(0);         // it gives all of it
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
    if (fetched.status == 416) part.cut(0);  // what is there is not a beginning of it
    const bool good = fetched.status == 200 || fetched.status == 206 || fetched.status == 416;
    if (fetched.problem.empty() && !good && !may_pass(fetched.status)) {
      throw std::runtime_error(refusal(path, fetched.status));
    }
    if (part.size() > begin) tries = 0;  // it goes on
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

}  // namespace reprise::tools
