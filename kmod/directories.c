// SPDX-License-Identifier: GPL-2.0
/*
 * Users' directories: where state files and channels live, as they do in /dev/shm without the module. They lie in a tmpfs of the
 * module's own, that is mounted nowhere and so is there before anything is, whatever a process has for a root; a user's is
 * made when he first asks for it, is his alone, and is had as a descriptor. What is in it is up to user space.
 *
 * Who is in a process-id or user namespace of its own is given none: a container's root is somebody else than the machine's.
 *
 * What holds the module. As long as a file of it is open or mapped, and as long as there is one that is no state file (a killed
 * recorder's channel, which somebody may want), it can not be unloaded: looked at now and then, since nothing tells us
 * when the last of them is closed.
 */
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/mutex.h>
#include <linux/namei.h>
#include <linux/pid_namespace.h>
#include <linux/shmem_fs.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>
#include <plumb/abi/channel.h>
#include <plumb/abi/module.h>
#include <plumb/abi/state.h>

#include "compat.h"
#include "plumb.h"

/* As /dev/shm has it, with as many files as that: half of the memory. And names that others can not list. */
#define OPTIONS "size=50%,mode=0711"
#define LOOK_EVERY (HZ / 10)
/* How many files a look goes through, with a lock of theirs held: of each user there is one that is no channel, and a directory. */
#define LOOKED_AT_MAX 4096

static struct vfsmount *directories;
static DEFINE_MUTEX(hold_lock);
static bool holds_module;
static u64 given, given_before; /* descriptors, by now and at the last look */
static u32 opening; /* that are not open yet */

static void look_for_use(struct work_struct *work);
static DECLARE_DELAYED_WORK(look, look_for_use);

/* Or so many files that it is not known: who keeps them there could keep the module by one channel as well. */
static bool may_have_channels(void)
{
	struct super_block *sb = directories->mnt_sb;
	struct inode *inode;
	size_t looked_at = 0;
	bool found = false;

	spin_lock(&sb->s_inode_list_lock);
	list_for_each_entry(inode, &sb->s_inodes, i_sb_list) {
		const loff_t bytes = i_size_read(inode);

		found = ++looked_at > LOOKED_AT_MAX ||
			(S_ISREG(inode->i_mode) && bytes >= PLUMB_CHANNEL_HEADER_BYTES && bytes != PLUMB_STATE_TOTAL_BYTES);
		if (found)
			break;
	}
	spin_unlock(&sb->s_inode_list_lock);
	return found;
}

/* With the reference that we keep besides the first one, may_umount() is: nothing of it is open or mapped. */
static void look_for_use(struct work_struct *work)
{
	mutex_lock(&hold_lock);
	if (given != given_before || opening || !may_umount(directories) || may_have_channels()) {
		given_before = given;
		schedule_delayed_work(&look, LOOK_EVERY);
	} else {
		holds_module = false;
		module_put(THIS_MODULE); /* who unloads it waits for this to end */
	}
	mutex_unlock(&hold_lock);
}

static int hold_module(void)
{
	int error = 0;

	mutex_lock(&hold_lock);
	given++;
	opening++;
	if (!holds_module) {
		if (try_module_get(THIS_MODULE)) {
			holds_module = true;
			schedule_delayed_work(&look, LOOK_EVERY);
		} else {
			opening--;
			error = -ENODEV;
		}
	}
	mutex_unlock(&hold_lock);
	return error;
}

static void is_opened(void)
{
	mutex_lock(&hold_lock);
	opening--;
	mutex_unlock(&hold_lock);
}

/* By the kernel's own rights: users can not make anything beside each other. */
static int make_directory(struct dentry *dentry, kuid_t user, kgid_t group)
{
	struct inode *parent = d_inode(directories->mnt_root);
	struct cred *own = prepare_kernel_cred(&init_task);
	const struct cred *theirs;
	int error;

	if (!own)
		return -ENOMEM;
	theirs = override_creds(own);
	error = make_directory_in(parent, dentry, 0700);
	revert_creds(theirs);
	put_cred(own);
	if (error)
		return error;
	inode_lock_nested(d_inode(dentry), I_MUTEX_CHILD);
	d_inode(dentry)->i_mode = S_IFDIR | 0700; /* whatever the umask */
	d_inode(dentry)->i_uid = user;
	d_inode(dentry)->i_gid = group;
	inode_unlock(d_inode(dentry));
	return 0;
}

/* The user's directory, made if it is missing. */
static struct dentry *find_directory(void)
{
	struct dentry *root = directories->mnt_root, *dentry;
	kuid_t user = current_euid();
	char name[32];
	int error = 0;

	snprintf(name, sizeof(name), "plumb-%u", from_kuid(&init_user_ns, user));
	inode_lock_nested(d_inode(root), I_MUTEX_PARENT);
	dentry = lookup_one_len(name, root, strlen(name));
	if (!IS_ERR(dentry) && d_really_is_negative(dentry))
		error = make_directory(dentry, user, current_egid());
	inode_unlock(d_inode(root));
	if (!error)
		return dentry;
	dput(dentry);
	return ERR_PTR(error);
}

static int open_directory(struct dentry *dentry)
{
	struct path path = { .mnt = directories, .dentry = dentry };
	int descriptor = get_unused_fd_flags(O_CLOEXEC);
	struct file *file;

	if (descriptor < 0)
		return descriptor;
	file = dentry_open(&path, O_RDONLY | O_DIRECTORY, current_cred());
	if (IS_ERR(file)) {
		put_unused_fd(descriptor);
		return PTR_ERR(file);
	}
	fd_install(descriptor, file);
	return descriptor;
}

static bool is_of_machine(void)
{
	return current_user_ns() == &init_user_ns && task_active_pid_ns(current) == &init_pid_ns;
}

int plumb_open_directory(bool of_all)
{
	struct dentry *dentry;
	int descriptor;

	if (!directories)
		return -EOPNOTSUPP;
	if (!is_of_machine())
		return -EXDEV;
	if (of_all && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	descriptor = hold_module();
	if (descriptor)
		return descriptor;
	dentry = of_all ? dget(directories->mnt_root) : find_directory();
	descriptor = IS_ERR(dentry) ? PTR_ERR(dentry) : open_directory(dentry);
	if (!IS_ERR(dentry))
		dput(dentry);
	is_opened();
	return descriptor;
}

/* Nobody can cut it then, from under those who have mapped it. */
long plumb_fix_size(int descriptor)
{
	struct fd opened = fdget(descriptor);
	struct file *file = plumb_file_of(opened);
	long error = 0;

	if (!file)
		return -EBADF;
	if (!directories || file_inode(file)->i_sb != directories->mnt_sb || !S_ISREG(file_inode(file)->i_mode)) {
		error = -EINVAL;
	} else if (!(file->f_mode & FMODE_WRITE)) {
		error = -EPERM;
	} else {
		inode_lock(file_inode(file));
		SHMEM_I(file_inode(file))->seals |= F_SEAL_SHRINK | F_SEAL_GROW;
		inode_unlock(file_inode(file));
	}
	fdput(opened);
	return error;
}

/* Without them the module has all else. */
void plumb_start_directories(void)
{
	static char options[] = OPTIONS;
	struct file_system_type *type = get_fs_type("tmpfs");
	struct vfsmount *mounted;

	if (!type) {
		pr_warn("plumb: this kernel has no tmpfs: programs look for state in /dev/shm\n");
		return;
	}
	/* Not SB_KERNMOUNT: such a one has no limits. */
	mounted = vfs_kern_mount(type, 0, "plumb", options);
	module_put(type->owner);
	if (IS_ERR(mounted)) {
		pr_warn("plumb: no directories (%ld): programs look for state in /dev/shm\n", PTR_ERR(mounted));
		return;
	}
	mounted->mnt_flags |= MNT_NOSUID | MNT_NODEV | MNT_NOEXEC;
	directories = mntget(mounted);
}

void plumb_stop_directories(void)
{
	if (!directories)
		return;
	cancel_delayed_work_sync(&look);
	mntput(directories);
	kern_unmount(directories);
}
