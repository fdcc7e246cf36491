// Runs the system's resolver on detached threads, which share only the way back to the loop.
#include "net/address_lookup.hpp"

#include <asio/post.hpp>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace gv {

/// The way back to the loop.
struct AddressLookup::Loop {
  std::mutex mutex;
  asio::io_context* io;  ///< Null once the owner has ended, because the loop may then end too.
};

AddressLookup::Addresses AddressLookup::ask_system(const Name& name) {
  try {
    asio::io_context own;
    asio::ip::tcp::resolver resolver(own);
    asio::error_code error;
    return name.only_ipv4 ? resolver.resolve(asio::ip::tcp::v4(), name.host, name.port, error)
                          : resolver.resolve(name.host, name.port, error);
  } catch (const std::exception&) {
    return {};
  }
}

AddressLookup::AddressLookup(asio::io_context& io, Resolve resolve)
    : resolve_(std::move(resolve)), loop_(std::make_shared<Loop>()) {
  loop_->io = &io;
}

AddressLookup::~AddressLookup() {
  const std::lock_guard lock(loop_->mutex);
  loop_->io = nullptr;
}

void AddressLookup::look_up(Name name, std::weak_ptr<const void> asker, Then then) {
  waiting_.push_back(
      {std::move(name), std::move(asker), std::move(then), asio::make_work_guard(*loop_->io)});
  start_next();
}

/// Starts a thread for the first waiting name, unless a lookup is under way.
void AddressLookup::start_next() {
  while (!current_ && !waiting_.empty()) {
    Request next = std::move(waiting_.front());
    waiting_.pop_front();
    if (next.asker.expired()) continue;
    try {
      std::thread([this, loop = loop_, resolve = resolve_, name = next.name] {
        Addresses found = resolve(name);
        const std::lock_guard lock(loop->mutex);
        if (loop->io == nullptr) return;
        asio::post(*loop->io, [this, loop, found = std::move(found)] {
          if (loop->io != nullptr) finish(found);
        });
      }).detach();
      current_.emplace(std::move(next));
    } catch (const std::system_error&) {
      next.then({});
    }
  }
}

/// Takes over the answer of the thread, which ends now.
void AddressLookup::finish(const Addresses& found) {
  const Request done = *std::exchange(current_, std::nullopt);
  start_next();
  if (!done.asker.expired()) done.then(found);
}

}  // namespace gv
