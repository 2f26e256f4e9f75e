#include "protocol/snapshots/cache_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "protocol/snapshots/seal.h"

namespace reprise::protocol::snapshots {
namespace {

constexpr std::size_t kMostSecret = 4096;

/// 64 hex digits: 256 bits of chance.
std::string new_secret() {
  std::string text;
  while (text.size() < 64) {
    RecordId id;
    const Nonce random = new_nonce();
    std::memcpy(id.bytes.data(), random.data(), random.size());
    text += id.hex().substr(0, 2 * random.size());
  }
  return text.substr(0, 64);
}

/// Whole under its name, or not at all; whoever is first counts.
bool make_secret(const std::string& path) {
  const std::string temporary = path + "." + std::to_string(::getpid());
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return false;
  const std::string text = new_secret() + "\n";
  const bool written =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
  int error = errno;
  ::close(file);
  bool made = written;
  if (written && ::link(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
    made = error == EEXIST;
  }
  ::unlink(temporary.c_str());
  errno = error;
  return made;
}

}  // namespace

std::string usual_secret_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/reprise/cache.secret";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return std::string(home) + "/.local/state/reprise/cache.secret";
}

Outcome<Key, std::string> key_of_secret(std::string_view secret) {
  if (secret.size() < kLeastSecret) {
    return "a secret needs at least " + std::to_string(kLeastSecret) + " bytes, this one " +
           std::to_string(secret.size());
  }
  return master_key(secret);
}

Outcome<Key, std::string> key_from_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && std::filesystem::create_directories(folder, ignored)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
  }
  if (::access(path.c_str(), F_OK) != 0 && !make_secret(path)) {
    return "cannot keep a secret in " + path + ": " + std::strerror(errno);
  }
  struct stat about {};
  std::ifstream file(path, std::ios::binary);
  if (!file || ::stat(path.c_str(), &about) != 0) return "cannot read " + path;
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return path + " can be read by others; it holds a secret: chmod 600";
  }
  std::string secret(kMostSecret, '\0');
  file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  secret.resize(static_cast<std::size_t>(file.gcount()));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  Outcome<Key, std::string> key = key_of_secret(secret);
  if (!key.ok()) return path + ": " + key.error();
  return key;
}

}  // namespace reprise::protocol::snapshots
