/* The C interface of Grapevine: a program's own training loop becomes a peer of a swarm.
 *
 * A peer joins with the tensors of its model, which stay in the program's memory. The program calls
 * gv_step() after each optimiser step, and where gradients are summed gv_reduce() before it. Between
 * calls the tensors belong to the program; during a call the peer may read and change them.
 *
 * Every function but gv_problem() returns a result, and gv_problem() says in words what was wrong
 * and what to do. A handle is used by one thread at a time. A process may have several handles.
 * After fork() the child may not use them. The library handles no signals, prints nothing, and
 * leaves no thread behind once gv_free() has returned. */
#ifndef GRAPEVINE_H
#define GRAPEVINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define GV_API
#else
#define GV_API __attribute__((visibility("default")))
#endif

/* Changes when a program that was compiled with an older header could misunderstand the library. */
#define GV_ABI 1

typedef struct gv_peer gv_peer;

/* A value never gets another meaning. */
typedef int32_t gv_result;
enum {
  GV_OK = 0,
  GV_OVER = 1,           /* Training is over. The tensors hold the final model: with a budget of the
                            swarm the common one, unless the event finale_missed says otherwise. */
  GV_PENDING = 2,        /* Still waiting: call gv_wait(). */
  GV_WRONG_ARGUMENT = 3, /* The call is wrong. Nothing has changed. */
  GV_REFUSED = 4,        /* The operator must fix a file, a setting or an argument. */
  GV_UNREACHABLE = 5,    /* No authorised peer answered. From gv_join() with a ticket: none within
                            `patience_s` (the call may be repeated until the ticket expires), or,
                            once admitted, no peer within 30 s. */
  GV_FAILED = 6,         /* The machine or the peer failed. */
  GV_MISSED = 7          /* The others have gone on without this peer. The array is as it was. */
};

enum {
  GV_TICKET_BYTES = 2048 /* No ticket is longer. */
};

enum { GV_F32 = 0, GV_F16 = 1, GV_BF16 = 2, GV_F64 = 3, GV_I64 = 4 };

enum {
  GV_MEAN = 0,   /* Part of the model: peers pull it together or average it. */
  GV_BUFFER = 2, /* The same for a part without a gradient, such as the statistics of a batch norm.
                    Where gradients are summed, its values stand in place of its gradient. Settings
                    that compress gradients or add to models with a momentum are refused. */
  GV_STATE = 1   /* What else is needed to go on exactly, such as an optimiser's moments: part of
                    checkpoints, and in mode `allreduce` of what a newcomer gets. Finite numbers. */
};

/* One tensor in the program's memory, dense and in row-major order. It must stay there until
 * gv_free(). All peers of a swarm must name the same GV_MEAN and GV_BUFFER tensors with the same
 * shapes in the same order. */
typedef struct gv_tensor {
  size_t size;      /* sizeof(gv_tensor) */
  const char* name; /* Unique among the tensors of its role. */
  void* data;
  const uint64_t* shape; /* NULL: one dimension of `elements`. */
  uint64_t dimensions;
  uint64_t elements;
  uint32_t type; /* GV_F32 to GV_F64; GV_I64 only in a GV_STATE tensor. */
  uint32_t role;
} gv_tensor;

/* Copies tensors that are where the library cannot read them, such as on a GPU, to the memory that
 * gv_tensor names for them, or back. `role` is GV_MEAN for all GV_MEAN and GV_BUFFER tensors
 * together, or GV_STATE. Returns 0, or another number if the copy has failed; then the peer ends
 * with GV_FAILED. A thread of the library calls it while the program waits in a call, after a call
 * has returned GV_PENDING, or until gv_leave() has returned GV_OK. */
typedef int32_t (*gv_copy)(void* context, uint32_t role, uint32_t direction);
enum {
  GV_COPY_OUT = 0, /* The library reads next: the memory must hold the present values. */
  GV_COPY_IN = 1   /* The library has written other values to the memory. */
};

/* Text may be NULL where a default is named. The command `grapevine peer --help` says more about
 * each. Set everything to zero first, and then `size`. What is not given is taken from the
 * environment variable GRAPEVINE_PEER, in which `grapevine launch -n N -- PROGRAM` puts what each
 * program needs. */
typedef struct gv_options {
  size_t size;            /* sizeof(gv_options) */
  const char* config;     /* Path of the run's TOML file; NULL: the built-in config. */
  const char* settings;   /* Further TOML, which replaces what the file says. */
  const char* key;        /* File with the secret key; NULL: "key". */
  const char* authorized; /* The allow-list; NULL: "authorized_peers". */
  const char* name;       /* NULL: as the allow-list says. */
  const char* folder;     /* The peer's run folder; NULL: run.folder of the config, and the name. */
  const char* listen;     /* "HOST:PORT", port 0 for any; NULL: dial out only. */
  const char* advertise;  /* "HOST:PORT" that others dial; NULL: the address listened on. */
  const char* const* join; /* Addresses of running peers. */
  size_t joins;            /* Their number. */
  const char* shard;       /* "K/N"; NULL: by the place in the allow-list, or the rank. */
  uint64_t wait_for;       /* Begin when this many peers are there; 0: as the config says. */
  uint64_t samples;        /* Size of this peer's data, which may be its weight; 0: not known. */
  uint64_t all_samples;    /* Of all peers' data, for a budget in epochs; 0: not known. */
  double patience_s;       /* A call waits this long at most, then GV_PENDING; 0: for ever. */
  uint32_t resume;         /* Not 0: go on from the newest checkpoint in the folder. */
  uint32_t has_rank;       /* Not 0: `rank` is given. */
  const char* cohort;      /* A cohort's secret, in place of `key` and `authorized`; NULL: none. */
  uint64_t rank;           /* In the cohort, if `has_rank`; else as the environment says. */
  uint64_t ranks;          /* Their number; 0: as the environment says. */
  const char* rendezvous;  /* Folder where ranks find each other; NULL: beside the cohort's file. */
  gv_copy copy;            /* NULL: the tensors are where gv_tensor says. */
  void* copy_context;      /* Given to `copy`. */
  const char* ticket;      /* Joins by it, in place of `config`, `key`, `authorized`, `join` and
                              `shard`; NULL: none. The run's config is the inviting peer's. */
  uint32_t create;         /* Not 0: begins a swarm that others join by tickets of gv_invite(). Needs
                              `listen`; `key`, `authorized`, `join` and `shard` are left out. */
  const char* dial_from;   /* Address of this machine that connections to others come from; NULL: the
                              system's choice. */
  uint32_t lane_port;      /* Port that bulk lanes listen on, beside that of `listen`; 0: any. */
} gv_options;

/* What a call has found out. */
typedef struct gv_info {
  size_t size; /* sizeof(gv_info) */
  uint64_t steps;    /* Steps made by this handle. Without a model: the number of the call that has
                        ended, as all peers count them, or of their last before this one joined. */
  uint64_t samples;  /* After gv_reduce(): samples in the mean; 0: the gradient is your own. After
                        gv_mean(): peers in the mean; 0: all weights were 0. */
  double progress;   /* Of the swarm's budget, from 0 to 1; 0 where each peer has its own. */
  double factor;     /* Multiply the next change of the parameters by this. Usually 1. */
  uint32_t again;    /* After gv_reduce(), not 0: the model was replaced. Compute the gradient again
                        and call gv_reduce() once more. */
  uint32_t needs_gradient; /* Not 0: the next step's gradient must pass through gv_reduce(). */
  uint64_t position; /* Of the next step's samples: with leased data as the swarm has dealt them,
                        otherwise as gv_set_position() or the checkpoint says. */
  uint64_t batch;    /* Samples of a step, as the config says (train.batch). */
  uint64_t part;     /* After gv_indices(): samples of an epoch of this peer. */
  uint32_t is_leased; /* Not 0: data are leased. Each step must then take `batch` samples from
                         `position` on, and ask for their indices. */
} gv_info;

/* The GV_ABI that the library was built with. */
GV_API uint32_t gv_abi(void);

/* What was wrong with the last call of this thread that did not succeed, in a sentence or more.
 * Valid until the thread's next call. Never NULL. */
GV_API const char* gv_problem(void);

/* Starts a peer and waits until it may make the first step. Then the tensors hold the model to
 * begin with: their own, or that of the swarm. In mode `allreduce` peers that bring different models
 * all begin with that of one of them. Values that are not finite are refused, unless `resume` or `copy`
 * is set. Sets *peer also with GV_PENDING and GV_OVER. */
GV_API gv_result gv_join(const gv_options* options, const gv_tensor* tensors, size_t count,
                         gv_peer** peer);

/* Reports that an optimiser step is over, on `samples` samples with this mean loss, and waits until
 * the next may begin. In mode `gossip` it waits for no other peer. `info` may be NULL. */
GV_API gv_result gv_step(gv_peer* peer, uint64_t samples, double loss, gv_info* info);

/* Gives the gradient of the mean loss at the present model: a tensor for each GV_MEAN and GV_BUFFER
 * tensor, of the same shape and in the same order. Where peers sum gradients, waits for the sum and
 * replaces the gradient by the mean; elsewhere it does nothing. The gradient must stay there until
 * the call is over, even while it is pending. */
GV_API gv_result gv_reduce(gv_peer* peer, const gv_tensor* gradient, size_t count,
                           uint64_t samples, double loss, gv_info* info);

/* Hands over a part of the gradient, and does not wait: some tensors with the names of those given
 * to gv_join(). Where peers sum gradients, a part is summed while the program computes the others,
 * as soon as all tensors that came after it in gv_join() have been given, too. Peers need not agree
 * on the parts and their order. The tensors must stay there, and nothing may change them, until
 * gv_reduce_end() is over; they cannot be taken back. */
GV_API gv_result gv_reduce_begin(gv_peer* peer, const gv_tensor* part, size_t count);

/* Ends a gradient whose tensors have all been given to gv_reduce_begin(), each once, as gv_reduce()
 * does. With `again` all parts are given once more. */
GV_API gv_result gv_reduce_end(gv_peer* peer, uint64_t samples, double loss, gv_info* info);

/* Starts a peer without a model, for the functions below, and waits until it works together with
 * the others. All peers of a swarm must join in this way. Of the config only the sections `run`
 * (without its budget), `membership` and `network` count. Sets *peer also with GV_PENDING. */
GV_API gv_result gv_join_collective(const gv_options* options, gv_peer** peer);

/* Replaces `array` by the mean over all peers, each with its weight, and waits for that. The n-th
 * call of each peer is made with the n-th of the others, and a newcomer's first with their next.
 * All peers end with identical bits, or none has a mean; a peer that dies is left out. Arrays are
 * float tensors, whose name, shape and role do not matter, and travel as 32-bit floats. Their
 * length may differ from call to call, but must be the same at all peers: otherwise all leave, and
 * the result is GV_REFUSED. Values must be finite and below 1e35, also times the weight, which is 0
 * or from 1e-9 to 1e9. */
GV_API gv_result gv_mean(gv_peer* peer, const gv_tensor* array, double weight, gv_info* info);

/* Begins a mean as gv_mean() does, and does not wait. `array` must stay there, and may not be used,
 * until the call has ended. Several calls may be under way. */
GV_API gv_result gv_mean_begin(gv_peer* peer, const gv_tensor* array, double weight,
                               uint64_t* call);

/* Waits for a call that gv_mean_begin() began, for `patience_s` at most (negative: as long as the
 * options say), and ends it unless the result is GV_PENDING. Every call must be ended once. */
GV_API gv_result gv_mean_end(gv_peer* peer, uint64_t call, double patience_s, gv_info* info);

/* Goes on waiting for the call that has returned GV_PENDING, and returns what it would have. */
GV_API gv_result gv_wait(gv_peer* peer, gv_info* info);

/* Tells the peer the learning rate of the next step, which some rules of mode `mixing` need. */
GV_API gv_result gv_set_learning_rate(gv_peer* peer, double learning_rate);

/* Writes the indices of `count` samples from `position` on, in a data set of `samples` of which each
 * peer reads its part (data.partition iid, shared or leased). A position counts samples over all
 * epochs, and each epoch has an order of its own: a pure function of run.seed, the shard and the
 * position. `count` may be 0, to learn the `part`. */
GV_API gv_result gv_indices(gv_peer* peer, uint64_t samples, uint64_t position, uint64_t* indices,
                            size_t count, gv_info* info);

/* Says before gv_step() at which position the samples after this step begin. Checkpoints keep it. */
GV_API gv_result gv_set_position(gv_peer* peer, uint64_t position);

/* Makes a ticket with which `uses` other programs or machines may join within `valid_s` seconds (0:
 * an hour), and writes it and a zero byte to `text`, which has room for `bytes`, at least
 * GV_TICKET_BYTES. Unless `may_invite` is 0 they may invite others, too. The peer has begun a swarm or
 * joined by a ticket, and listens. May be called while gv_join() is pending. GV_PENDING: the peer does
 * not answer yet, and there is no ticket: call gv_invite() again. */
GV_API gv_result gv_invite(gv_peer* peer, uint64_t uses, double valid_s, uint32_t may_invite,
                           char* text, size_t bytes);

/* Writes the peer's status as JSON and a zero byte to `text`. `*bytes` is the room there, and
 * becomes what is needed; with too little room the result is GV_WRONG_ARGUMENT. GV_PENDING: the peer
 * does not answer yet, or not in time, and nothing was written: call gv_status_json() again. */
GV_API gv_result gv_status_json(gv_peer* peer, char* text, size_t* bytes);

/* Leaves the swarm: saves, tells the others, and waits until that is done. May be called at any
 * time, even while another call is pending, and again. Until it has returned GV_OK the tensors are
 * still in use. A program should call it before it ends, also on a signal: otherwise the other
 * peers take this one for dead. */
GV_API gv_result gv_leave(gv_peer* peer);

/* Leaves if the peer has not left, and frees the handle. NULL is ignored. */
GV_API void gv_free(gv_peer* peer);

#ifdef __cplusplus
}
#endif

#endif
