/* The C interface of Grapevine: a program's own training loop becomes a peer of a swarm.
 *
 * A peer joins with the tensors of its model, which stay in the program's memory. The program calls
 * gv_step() after each optimiser step. If peers sum gradients, it also calls gv_reduce() before
 * each optimiser step. Between calls the tensors belong to the program; during a call the peer may
 * read and change them.
 *
 * Every function except gv_abi(), gv_problem() and gv_free() returns a gv_result. After a failure,
 * gv_problem() says in words what was wrong and what to do. Only one thread at a time may use a
 * handle. A process may have several handles. After fork() the child may not use them. The library
 * handles no signals, prints nothing, and leaves no thread behind once gv_free() has returned,
 * unless a name server has not answered yet: such a thread uses only its own memory and ends within
 * about half a minute. */
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

/* Changes whenever a program that was compiled with an older header could misunderstand the
 * library. */
#define GV_ABI 1

typedef struct gv_peer gv_peer;

/* The meaning of a value never changes. */
typedef int32_t gv_result;
enum {
  GV_OK = 0,
  GV_OVER = 1,           /* Training is over. The tensors hold the final model. If the swarm has
                            one budget, this is the common model, unless the event finale_missed
                            says otherwise. */
  GV_PENDING = 2,        /* Still waiting: call gv_wait(). */
  GV_WRONG_ARGUMENT = 3, /* The call is wrong. Nothing has changed. */
  GV_REFUSED = 4,        /* The operator must fix a file, a setting or an argument. */
  GV_UNREACHABLE = 5,    /* No authorised peer answered. From gv_join() with a ticket: no peer
                            answered within `patience_s` (the call may be repeated until the
                            ticket expires), or no peer answered within 30 s after this one was
                            admitted. */
  GV_FAILED = 6,         /* The machine or the peer failed. */
  GV_MISSED = 7          /* The other peers have gone on without this one. The array is
                            unchanged. */
};

enum {
  GV_TICKET_BYTES = 2048 /* The largest size of a ticket. */
};

enum { GV_F32 = 0, GV_F16 = 1, GV_BF16 = 2, GV_F64 = 3, GV_I64 = 4 };

enum {
  GV_MEAN = 0,   /* A part of the model, which peers average or pull together. */
  GV_BUFFER = 2, /* A part of the model that has no gradient, such as the statistics of a batch
                    norm. If peers sum gradients, its values take the place of a gradient.
                    Settings that compress, correct or measure gradients, apply a momentum to
                    sums, or add up the peers' changes are refused. */
  GV_STATE = 1   /* Other state that an exact resumption needs, such as an optimiser's moments.
                    It is stored in checkpoints, and in mode `allreduce` sent to newcomers. The
                    numbers must be finite. */
};

/* One tensor in the program's memory, dense and in row-major order. The memory must stay valid
 * until gv_free(). All peers of a swarm must name the same GV_MEAN and GV_BUFFER tensors with the
 * same shapes in the same order. */
typedef struct gv_tensor {
  size_t size;      /* sizeof(gv_tensor) */
  const char* name; /* Unique among the tensors of its role. */
  void* data;
  const uint64_t* shape; /* NULL: one dimension of length `elements`. */
  uint64_t dimensions;
  uint64_t elements;
  uint32_t type; /* GV_F32 to GV_F64; GV_I64 only in a GV_STATE tensor. */
  uint32_t role;
} gv_tensor;

/* Copies tensors that the library cannot read in place, such as those on a GPU, to the memory that
 * gv_tensor names for them, or back. `role` is GV_MEAN for all GV_MEAN and GV_BUFFER tensors
 * together, or GV_STATE. The function returns 0 if it has succeeded; if it returns another number,
 * the peer ends with GV_FAILED. A thread of the library may call it while the program waits in a
 * call, at any time after a call has returned GV_PENDING, and while the program leaves, until
 * gv_leave() has returned GV_OK. */
typedef int32_t (*gv_copy)(void* context, uint32_t role, uint32_t direction);
enum {
  GV_COPY_OUT = 0, /* The library will read the memory, which must then hold the present values. */
  GV_COPY_IN = 1   /* The library has written new values to the memory. */
};

/* Set the whole struct to zero first, and then set `size`. The command `grapevine peer --help`
 * describes each option in more detail. A field that is left at zero gets its value from the
 * environment variable GRAPEVINE_PEER, which `grapevine launch -n N -- PROGRAM` sets for each
 * program. Without such a value, the default named here applies. */
typedef struct gv_options {
  size_t size;            /* sizeof(gv_options) */
  const char* config;     /* Path of the run's TOML file; NULL: the built-in config. */
  const char* settings;   /* Further TOML, which overrides the file. */
  const char* key;        /* File with the secret key; NULL: "key". */
  const char* authorized; /* The allow-list; NULL: "authorized_peers". */
  const char* name;       /* NULL: the name in the allow-list. */
  const char* folder;     /* The peer's run folder; NULL: made from run.folder and the name. */
  const char* listen;     /* "HOST:PORT"; port 0: any free port; NULL: the peer only dials out. */
  const char* advertise;  /* "HOST:PORT" that others dial; NULL: the address of `listen`. */
  const char* const* join; /* Addresses of running peers. */
  size_t joins;            /* Number of addresses in `join`. */
  const char* shard;       /* "K/N"; NULL: given by the place in the allow-list, or by the rank. */
  uint64_t wait_for;       /* Begin once this many peers have joined; 0: as the config says. */
  uint64_t samples;        /* Number of this peer's samples, which may be its weight; 0: not
                              known. */
  uint64_t all_samples;    /* Number of all peers' samples, for a budget in epochs; 0: not known. */
  double patience_s;       /* A call that has waited this long returns GV_PENDING; 0: no limit. */
  uint32_t resume;         /* Not 0: continue from the newest checkpoint in the folder. */
  uint32_t has_rank;       /* Not 0: `rank` is given. */
  const char* cohort;      /* File with a cohort's secret, in place of `key` and `authorized`;
                              NULL: none. */
  uint64_t rank;           /* This peer's place in the cohort, if `has_rank` is set; otherwise as
                              the environment says. */
  uint64_t ranks;          /* Number of places in the cohort; 0: as the environment says. */
  const char* rendezvous;  /* Folder where the ranks find each other; NULL: beside the cohort's
                              file. */
  gv_copy copy;            /* NULL: the library can read and write all tensors in place. */
  void* copy_context;      /* Passed to `copy` in each call. */
  const char* ticket;      /* Ticket to join by, in place of `config`, `key`, `authorized`,
                              `join` and `shard`; NULL: none. The config is the inviting peer's. */
  uint32_t create;         /* Not 0: begins a swarm that others join with tickets from
                              gv_invite(). Set `listen`, and leave out `key`, `authorized`,
                              `join` and `shard`. */
  const char* dial_from;   /* Address of this machine from which the peer dials others; NULL: the
                              system's choice. */
  uint32_t lane_port;      /* Port on which bulk lanes listen, in addition to that of `listen`;
                              0: any. */
} gv_options;

/* Information that a call returns. */
typedef struct gv_info {
  size_t size; /* sizeof(gv_info) */
  uint64_t steps;    /* Steps made with this handle. Without a model: the number of the call that
                        has ended, counted alike at all peers; before the first, the number of
                        the other peers' last call. */
  uint64_t samples;  /* After gv_reduce(): samples in the mean; 0: the gradient is still your
                        own. After gv_mean(): peers in the mean; 0: all weights were 0. */
  double progress;   /* The used part of the swarm's budget, from 0 to 1; always 0 if each peer
                        has its own budget. */
  double factor;     /* Multiply the next change of the parameters by this. Usually 1. */
  uint32_t again;    /* After gv_reduce(), not 0: the model was replaced. Compute the gradient again
                        and call gv_reduce() once more. */
  uint32_t needs_gradient; /* Not 0: the next step's gradient must pass through gv_reduce(). */
  uint64_t position; /* Position of the next step's samples. With leased data the swarm decides
                        it; otherwise it comes from gv_set_position() or the checkpoint. */
  uint64_t batch;    /* Number of samples in a step (train.batch). */
  uint64_t part;     /* After gv_indices(): number of samples in an epoch of this peer. */
  uint32_t is_leased; /* Not 0: data are leased. Each step must then take `batch` samples from
                         `position` on, and get their indices from gv_indices(). */
} gv_info;

/* The GV_ABI that the library was built with. */
GV_API uint32_t gv_abi(void);

/* Returns a text that says what was wrong with this thread's last failed call, and what to do. The
 * text is valid until the thread's next call. Never NULL. */
GV_API const char* gv_problem(void);

/* Starts a peer and waits until the program may make the first step. The tensors then hold the
 * model to begin with: the program's own, or that of the swarm. In mode `allreduce`, peers that
 * bring different models all begin with the model of one of them. Values that are not finite are
 * refused, unless `resume` or `copy` is set. Sets *peer if the result is GV_OK, GV_PENDING or
 * GV_OVER. */
GV_API gv_result gv_join(const gv_options* options, const gv_tensor* tensors, size_t count,
                         gv_peer** peer);

/* Reports that an optimiser step on `samples` samples with this mean loss is over, and waits until
 * the next step may begin. In mode `gossip` it does not wait for other peers. `info` may be
 * NULL. */
GV_API gv_result gv_step(gv_peer* peer, uint64_t samples, double loss, gv_info* info);

/* Hands over the gradient of the mean loss at the present model: a tensor for each GV_MEAN and
 * GV_BUFFER tensor, of the same size and in the same order. If peers sum gradients, waits for the
 * sum and replaces the gradient with the mean; otherwise does nothing. The gradient's memory must
 * stay valid until the call is over, even while it is pending. */
GV_API gv_result gv_reduce(gv_peer* peer, const gv_tensor* gradient, size_t count,
                           uint64_t samples, double loss, gv_info* info);

/* Hands over a part of the gradient, and does not wait. The part consists of some tensors with the
 * same names as in gv_join(). If peers sum gradients, the library sums a part while the program
 * computes the others, as soon as it also has all tensors that came later in gv_join(). Peers need
 * not agree on the parts and their order. The tensors must stay valid and unchanged until
 * gv_reduce_end() is over. They cannot be taken back. */
GV_API gv_result gv_reduce_begin(gv_peer* peer, const gv_tensor* part, size_t count);

/* Ends a gradient whose tensors have all been given to gv_reduce_begin(), each exactly once. Then
 * waits like gv_reduce(). If `again` is set afterwards, all parts must be given once more. */
GV_API gv_result gv_reduce_end(gv_peer* peer, uint64_t samples, double loss, gv_info* info);

/* Starts a peer without a model, which only computes means of arrays, and waits until it works
 * together with the others. All peers of its swarm must join in this way. Of the config, only the
 * sections `run` (without its budget), `membership` and `network` are used. Sets *peer if the
 * result is GV_OK or GV_PENDING. */
GV_API gv_result gv_join_collective(const gv_options* options, gv_peer** peer);

/* Replaces `array` with the mean over all peers, each with its weight, and waits for the result.
 * The n-th call of each peer is matched with the n-th call of every other peer, and a newcomer's
 * first call with the next call of the others. Either all peers end with identical bits, or none
 * has a mean; a peer that dies is left out. Arrays are float tensors, whose names, shapes and roles
 * do not matter; they are sent as 32-bit floats. Their length may differ from call to call, but
 * must be the same at all peers. If lengths differ, all peers leave, and the result is GV_REFUSED.
 * Values must be finite and below 1e35, before and after they are multiplied by the weight. The
 * weight is 0, or from 1e-9 to 1e9. */
GV_API gv_result gv_mean(gv_peer* peer, const gv_tensor* array, double weight, gv_info* info);

/* Begins a mean like gv_mean(), but does not wait. Until the call has ended, `array` must stay
 * valid, and the program must not use it. Several calls may be under way at once. */
GV_API gv_result gv_mean_begin(gv_peer* peer, const gv_tensor* array, double weight,
                               uint64_t* call);

/* Waits for a call that gv_mean_begin() began, for at most `patience_s` seconds; if this is
 * negative, the value in the options applies. Ends the call unless the result is GV_PENDING. Every
 * call must be ended exactly once. */
GV_API gv_result gv_mean_end(gv_peer* peer, uint64_t call, double patience_s, gv_info* info);

/* Continues to wait for the call that has returned GV_PENDING, and returns the result of that
 * call. */
GV_API gv_result gv_wait(gv_peer* peer, gv_info* info);

/* Tells the peer the learning rate of the next step. Some rules of mode `mixing` need it. */
GV_API gv_result gv_set_learning_rate(gv_peer* peer, double learning_rate);

/* Writes the indices of `count` samples from `position` on. The data set has `samples` samples, and
 * each peer reads its part of them (data.partition is iid, shared or leased). A position counts
 * samples over all epochs. Each epoch has a different order, which depends only on run.seed, the
 * shard and the position. With a `count` of 0, the call only fills `info`, for example with
 * `part`. */
GV_API gv_result gv_indices(gv_peer* peer, uint64_t samples, uint64_t position, uint64_t* indices,
                            size_t count, gv_info* info);

/* To be called before gv_step(): sets the position at which the samples after this step begin.
 * Checkpoints keep the position. */
GV_API gv_result gv_set_position(gv_peer* peer, uint64_t position);

/* Makes a ticket with which `uses` other programs or machines may join within `valid_s` seconds (0:
 * an hour). Writes the ticket and a zero byte to `text`, which has room for `bytes` bytes, at least
 * GV_TICKET_BYTES. If `may_invite` is not 0, peers that join by this ticket can invite others, too.
 * The peer must have begun a swarm or joined by a ticket, and must listen. May be called while
 * gv_join() is pending. GV_PENDING: the peer does not answer yet, and there is no ticket; call
 * gv_invite() again. */
GV_API gv_result gv_invite(gv_peer* peer, uint64_t uses, double valid_s, uint32_t may_invite,
                           char* text, size_t bytes);

/* Writes the peer's status as JSON and a zero byte to `text`. Before the call, `*bytes` is the size
 * of `text`; the call sets it to the number of bytes needed. If `text` is too small, the result is
 * GV_WRONG_ARGUMENT. GV_PENDING: the peer does not answer yet, or not in time, and nothing was
 * written; call gv_status_json() again. */
GV_API gv_result gv_status_json(gv_peer* peer, char* text, size_t* bytes);

/* Leaves the swarm: saves a checkpoint, tells the other peers, and waits until both are done. May
 * be called at any time, even while another call is pending, and may be called again. The library
 * uses the tensors until gv_leave() has returned GV_OK. A program should call it before it ends,
 * also on a signal; otherwise the other peers take this one for dead. */
GV_API gv_result gv_leave(gv_peer* peer);

/* Makes the peer leave if it has not left yet, and frees the handle. NULL is ignored. */
GV_API void gv_free(gv_peer* peer);

#ifdef __cplusplus
}
#endif

#endif
